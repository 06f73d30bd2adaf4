package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/client"
)

func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	common := url.Values{
		"grant_type": {wire.GrantTypeTokenExchange}, "client_id": {"nemo-platform"}, "subject_token": {"h." + subjectMarker + ".s"},
		"subject_token_type": {wire.TokenTypeJWT}, "requested_token_type": {wire.TokenTypeAccess}, "audience": {"nemo-platform-api"},
	}
	for name, tc := range map[string]struct {
		change func(*client.WorkloadOptions)
		want   map[string]string // what differs
	}{
		"what discovery says": {},
		"another audience and scope": {
			change: func(o *client.WorkloadOptions) { o.Audience, o.Scope = "models", "openid email" },
			want:   map[string]string{"audience": "models", "scope": "openid email"},
		},
		"a proof of Docker's": {
			change: func(o *client.WorkloadOptions) {
				must(t, os.WriteFile(o.TokenFile, []byte(" nmp_obo_v1.YQ.YQ\r\n"), 0o600))
			},
			want: map[string]string{"subject_token": "nmp_obo_v1.YQ.YQ", "subject_token_type": wire.TokenTypeDockerProof},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &platform{}
			var change []func(*client.WorkloadOptions)
			if tc.change != nil {
				change = append(change, tc.change)
			}
			holds(t, p.workload(t, change...), 1)
			want := url.Values{}
			for k, v := range common {
				want[k] = v
			}
			for k, v := range tc.want {
				want.Set(k, v)
			}
			if diff := cmp.Diff(want, p.forms[0]); diff != "" {
				t.Errorf("form (-want +got):\n%s", diff)
			}
		})
	}
}

func TestATokenIsReplacedBeforeItEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		life  int
		fresh time.Duration // until then the first token is given out and nothing is asked
	}{
		"a minute before":            {life: 600, fresh: 540 * time.Second},
		"a fifth of a short life":    {life: 100, fresh: 80 * time.Second},
		"both are the same at 300 s": {life: 300, fresh: 240 * time.Second},
		"a life of one second":       {life: 1, fresh: 800 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &platform{token: func(n int, _ url.Values) answer { return granted(n, tc.life) }}
				w := p.workload(t)
				defer w.Close()
				holds(t, w, 1)
				pass(tc.fresh - time.Millisecond)
				holds(t, w, 1)
				synctest.Wait()
				if n := p.exchanges(); n != 1 {
					t.Errorf("%d exchanges while the token is fresh", n)
				}
				pass(time.Millisecond)
				holds(t, w, 1) // the old one, at once
				synctest.Wait()
				holds(t, w, 2)
				if p.exchanges() != 2 || p.found != 1 {
					t.Errorf("%d exchanges, %d discoveries", p.exchanges(), p.found)
				}
			})
		})
	}
}

func TestTheFileIsReadForEachExchange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, file := &platform{}, ""
		w := p.workload(t, func(o *client.WorkloadOptions) { file = o.TokenFile })
		defer w.Close()
		holds(t, w, 1)
		must(t, os.WriteFile(file, []byte("\n second \n"), 0o600))
		pass(time.Hour)
		holds(t, w, 2)
		if got := p.forms[1].Get("subject_token"); got != "second" {
			t.Errorf("sent %q", got)
		}
	})
}

func TestATokenThatIsReplacedJustThenIsTriedAgain(t *testing.T) {
	t.Parallel()
	file := ""
	p := &platform{token: func(n int, form url.Values) answer {
		if form.Get("subject_token") == "new" {
			return granted(n, 300)
		}
		_ = os.WriteFile(file, []byte("new"), 0o600) // as the kubelet may
		return answer{status: 400, body: `{"error":"invalid_request"}`}
	}}
	holds(t, p.workload(t, func(o *client.WorkloadOptions) { file = o.TokenFile }), 2)
}

func TestOneExchangeForManyCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := &platform{enter: func(*http.Request) { <-release }}
		w := p.workload(t)
		defer w.Close()
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() { holds(t, w, 1) })
		}
		synctest.Wait()
		close(release)
		all.Wait()
		if p.exchanges() != 1 || p.found != 1 {
			t.Errorf("%d exchanges, %d discoveries", p.exchanges(), p.found)
		}
	})
}

func TestAFailedRefreshKeepsTheToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var failed atomic.Int32
		p := &platform{token: func(n int, _ url.Values) answer {
			if n == 1 {
				return granted(n, 300)
			}
			return answer{err: errors.New("no route")}
		}}
		w := p.workload(t, func(o *client.WorkloadOptions) { o.Failed = func(error) { failed.Add(1) } })
		defer w.Close()
		start := time.Now()
		holds(t, w, 1)
		for time.Since(start) < 299*time.Second {
			pass(100 * time.Millisecond)
			holds(t, w, 1)
		}
		synctest.Wait()
		if n := int(failed.Load()); n != p.exchanges()-1 || n < 4 || n > 9 {
			t.Errorf("%d failures told in a minute, %d exchanges", n, p.exchanges())
		}
		for i := 2; i < len(p.times)-1; i++ { // the pauses grow: from a half of 2^n to all of it
			pause, least := p.times[i].Sub(p.times[i-1]), min(time.Second<<(i-2), 30*time.Second)/2
			if pause < least || pause > 2*least+200*time.Millisecond {
				t.Errorf("pause %d was %s, want %s to %s", i, pause, least, 2*least)
			}
		}
	})
}

func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status      int
		after       string
		least, most time.Duration
	}{
		"503 in seconds":            {503, "7", 7 * time.Second, 7700 * time.Millisecond},
		"429 in seconds":            {429, "20", 20 * time.Second, 22 * time.Second},
		"no more than 60 s":         {503, "3600", 60 * time.Second, 66 * time.Second},
		"a date":                    {503, "Sat, 01 Jan 2000 00:00:30 GMT", 30 * time.Second, 33 * time.Second},
		"a date that has passed":    {503, "Fri, 31 Dec 1999 00:00:00 GMT", 500 * time.Millisecond, time.Second},
		"nothing":                   {503, "", 500 * time.Millisecond, time.Second},
		"no number":                 {503, "soon", 500 * time.Millisecond, time.Second},
		"a negative one":            {503, "-5", 500 * time.Millisecond, time.Second},
		"of a 500 it means nothing": {500, "20", 500 * time.Millisecond, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &platform{token: func(n int, _ url.Values) answer {
					if n == 1 {
						return answer{status: tc.status, header: map[string]string{"Retry-After": tc.after}, body: `{"error":"temporarily_unavailable"}`}
					}
					return granted(n, 300)
				}}
				w := p.workload(t)
				defer w.Close()
				start := time.Now()
				holds(t, w, 2)
				if took := time.Since(start); took < tc.least || took > tc.most {
					t.Errorf("took %s, want %s to %s", took, tc.least, tc.most)
				}
			})
		})
	}
}

func TestPatienceEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &platform{token: func(int, url.Values) answer { return answer{status: 503, body: `{"error":"temporarily_unavailable"}`} }}
		w := p.workload(t, func(o *client.WorkloadOptions) { o.Patience = 10 * time.Second })
		defer w.Close()
		start := time.Now()
		_, err := w.Token()
		if took := time.Since(start); !client.Temporary(err) || took > 10*time.Second || took < 2*time.Second {
			t.Errorf("%v after %s", err, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		before := p.exchanges()
		if _, err := w.TokenContext(ctx); !client.Temporary(err) || p.exchanges() != before {
			t.Errorf("with a short deadline: %v", err)
		}
	})
}

func TestAHangingExchangeEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &platform{enter: func(r *http.Request) { <-r.Context().Done() }}
		p.token = func(int, url.Values) answer { return answer{err: context.DeadlineExceeded} }
		w := p.workload(t, func(o *client.WorkloadOptions) { o.Patience = 5 * time.Second })
		defer w.Close()
		if _, err := w.Token(); err == nil || err.Error() != "no access token in time: exchange the subject token: no answer yet" || !client.Temporary(err) {
			t.Errorf("got %v", err)
		}
		pass(11 * time.Second)
		synctest.Wait()
		if n := p.exchanges(); n != 1 {
			t.Errorf("%d exchanges ended", n)
		}
	})
}

func TestAFinalAnswerComesAtOnceAndIsNotAskedForAgainAndAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &platform{token: func(int, url.Values) answer {
			return answer{status: 400, body: `{"error":"invalid_request","error_description":"the subject token was refused"}`}
		}}
		w := p.workload(t)
		defer w.Close()
		start := time.Now()
		for range 100 {
			_, err := w.Token()
			var e *client.ExchangeError
			if !errors.As(err, &e) || e.Step != client.StepExchange || e.Status != 400 || e.Code != "invalid_request" || client.Temporary(err) {
				t.Fatalf("got %v", err)
			}
			if want := "exchange the subject token: answered 400 invalid_request: the subject token was refused"; err.Error() != want {
				t.Fatalf("got %q, want %q", err, want)
			}
		}
		if p.exchanges() != 1 || time.Since(start) != 0 {
			t.Errorf("%d exchanges in %s", p.exchanges(), time.Since(start))
		}
		pass(time.Second)
		_, _ = w.Token()
		if p.exchanges() != 2 || p.found != 2 {
			t.Errorf("later: %d exchanges, %d discoveries", p.exchanges(), p.found)
		}
	})
}

func TestNothingRunsAfterClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &platform{enter: func(r *http.Request) { <-r.Context().Done() }}
		p.token = func(int, url.Values) answer { return answer{err: context.Canceled} }
		w := p.workload(t)
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if _, err := w.Token(); !errors.Is(err, client.ErrWorkloadClosed) && !errors.Is(err, context.Canceled) {
				t.Errorf("a waiting caller: %v", err)
			}
		})
		synctest.Wait()
		w.Close()
		waiting.Wait()
		if _, err := w.Token(); !errors.Is(err, client.ErrWorkloadClosed) {
			t.Errorf("afterwards: %v", err)
		}
	})
}

func TestTokensNeverPrint(t *testing.T) {
	t.Parallel()
	p := &platform{api: func(*http.Request) int { return 401 }}
	w := p.workload(t)
	holds(t, w, 1)
	rt, err := w.RoundTripper(http.DefaultTransport)
	must(t, err)
	creds, err := w.PerRPCCredentials()
	must(t, err)
	echo := &platform{token: func(_ int, form url.Values) answer {
		return answer{status: 400, body: fmt.Sprintf(`{"error":"bad %s","error_description":"not a token: %s"}`, form.Get("subject_token"), form.Get("subject_token"))}
	}}
	_, echoed := echo.workload(t).Token()
	broken := &platform{token: func(n int, _ url.Values) answer { a := granted(n, 300); a.body = a.body[:60] + "\x00"; return a }}
	_, truncated := broken.workload(t).Token()
	for _, v := range []any{w, rt, creds, echoed, truncated} {
		shown, _ := json.Marshal(v)
		for _, text := range []string{fmt.Sprintf("%v %+v %#v %s %q", v, v, v, v, v), string(shown)} {
			if strings.Contains(text, tokenMarker) || strings.Contains(text, subjectMarker) {
				t.Errorf("%T shows a token: %s", v, text)
			}
		}
	}
	if echoed == nil || truncated == nil {
		t.Error("no error to look at")
	}
}
