package client_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/lanyard-k8s/lanyard/client"
)

func TestOnlyConfiguredOriginsGetTheToken(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		origins []string
		url     string
		want    bool
	}{
		"the base URL's by default":      {nil, "https://platform.example/v1/x?y=z", true},
		"its port written out":           {nil, "https://PLATFORM.example:443/v1", true},
		"another port of it":             {nil, "https://platform.example:444/v1", false},
		"clear text":                     {nil, "http://platform.example/v1", false},
		"clear text at the secure port":  {nil, "http://platform.example:443/v1", false},
		"another host":                   {nil, "https://mallory.example/v1", false},
		"a subdomain":                    {nil, "https://x.platform.example/v1", false},
		"a host that ends the same":      {nil, "https://myplatform.example/v1", false},
		"the host as a user name":        {nil, "https://platform.example@mallory.example/v1", false},
		"an origin that is listed":       {[]string{"https://data.example:8443", "https://api.example/"}, "https://api.example/v1", true},
		"the base URL when others are":   {[]string{"https://api.example"}, "https://platform.example/v1", false},
		"loopback in clear text, listed": {[]string{"http://[::1]:8080"}, "http://[::1]:8080/v1", true},
		"another spelling of an origin":  {[]string{"HTTPS://API.example"}, "https://api.EXAMPLE:443", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &platform{}
			rt, err := p.workload(t).RoundTripper(p, tc.origins...)
			must(t, err)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tc.url, nil)
			must(t, err)
			resp, err := rt.RoundTrip(req)
			must(t, err)
			_ = resp.Body.Close()
			want := []string{""}
			if tc.want {
				want = []string{"Bearer " + accessToken(1)}
			}
			if !slices.Equal(p.bearers, want) {
				t.Errorf("sent %q, want %q", p.bearers, want)
			}
			if req.Header.Get("Authorization") != "" {
				t.Error("the caller's request was changed")
			}
			if !tc.want && p.exchanges() != 0 {
				t.Error("a token was exchanged for nothing")
			}
		})
	}
}

func TestOriginsThatAreNoGood(t *testing.T) {
	t.Parallel()
	p := &platform{}
	w := p.workload(t)
	for origin, want := range map[string]string{
		"http://api.example": "must be https", "https://api.example/v1": "must end after the host and port", "https://u:hunter2@api.example": "no user or password",
		"api.example": "names no host", "*": "names no host", "https://": "names no host", "": "names no host", "https://x?y": "neither a query",
	} {
		_, err := w.RoundTripper(nil, origin)
		_, err2 := w.PerRPCCredentials(origin)
		if err == nil || err2 == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v, want %q", origin, err, want)
		}
	}
}

// send makes a request through the tokens and returns the status.
func send(t *testing.T, rt http.RoundTripper, body io.Reader) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://platform.example/v1", body)
	must(t, err)
	resp, err := rt.RoundTrip(req)
	must(t, err)
	_ = resp.Body.Close()
	return resp.StatusCode
}

// rejects answers 401 to some tokens.
func rejects(tokens ...int) func(*http.Request) int {
	return func(r *http.Request) int {
		for _, n := range tokens {
			if r.Header.Get("Authorization") == "Bearer "+accessToken(n) {
				return 401
			}
		}
		return 200
	}
}

func TestOneExchangeAfterA401(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		p             *platform
		body          io.Reader
		status, sends int
		exchanges     int
	}{
		"the new token is taken":        {p: &platform{api: rejects(1)}, status: 200, sends: 2, exchanges: 2},
		"with a body":                   {p: &platform{api: rejects(1)}, body: strings.NewReader("x"), status: 200, sends: 2, exchanges: 2},
		"a body that cannot be re-read": {p: &platform{api: rejects(1)}, body: io.MultiReader(strings.NewReader("x")), status: 401, sends: 1, exchanges: 1},
		"the new one is rejected too":   {p: &platform{api: rejects(1, 2, 3)}, status: 401, sends: 2, exchanges: 2},
		"a 403 is an answer":            {p: &platform{api: func(*http.Request) int { return 403 }}, status: 403, sends: 1, exchanges: 1},
		"the exchange fails": {p: &platform{api: rejects(1), token: func(n int, _ url.Values) answer {
			if n == 1 {
				return granted(1, 300)
			}
			return answer{status: 400}
		}}, status: 401, sends: 1, exchanges: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rt, err := tc.p.workload(t).RoundTripper(tc.p)
			must(t, err)
			if got := send(t, rt, tc.body); got != tc.status || len(tc.p.bearers) != tc.sends || tc.p.exchanges() != tc.exchanges {
				t.Errorf("status %d, %d sends, %d exchanges; want %d, %d, %d", got, len(tc.p.bearers), tc.p.exchanges(), tc.status, tc.sends, tc.exchanges)
			}
		})
	}
}

func TestAServerThatRejectsEverythingCausesFewExchanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &platform{api: func(*http.Request) int { return 401 }}
		w := p.workload(t)
		defer w.Close()
		rt, err := w.RoundTripper(p)
		must(t, err)
		for range 50 {
			send(t, rt, nil)
		}
		if n := p.exchanges(); n != 2 {
			t.Errorf("%d exchanges", n)
		}
		pass(31 * time.Second)
		send(t, rt, nil)
		if n := p.exchanges(); n != 3 {
			t.Errorf("%d exchanges half a minute later", n)
		}
	})
}

func TestCallersWithTheSameRejectedTokenShareOneExchange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &platform{api: rejects(1)}
		w := p.workload(t)
		defer w.Close()
		holds(t, w, 1)
		rt, err := w.RoundTripper(p)
		must(t, err)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if got := send(t, rt, nil); got != 200 {
					t.Errorf("status %d", got)
				}
			})
		}
		all.Wait()
		if n := p.exchanges(); n != 2 {
			t.Errorf("%d exchanges", n)
		}
	})
}

func TestPerRPCCredentials(t *testing.T) {
	t.Parallel()
	secure := credentials.TLSInfo{State: tls.ConnectionState{}, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
	bare := credentials.TLSInfo{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}}
	for name, tc := range map[string]struct {
		info  credentials.AuthInfo
		uri   string
		token func(int, url.Values) answer
		want  codes.Code
	}{
		"over TLS to the base URL's":  {info: secure, uri: "https://platform.example/svc.Svc", want: codes.OK},
		"to somewhere else":           {info: secure, uri: "https://mallory.example/svc.Svc", want: codes.Unauthenticated},
		"in clear text":               {info: bare, uri: "https://platform.example/svc.Svc", want: codes.Unauthenticated},
		"an exchange that is refused": {info: secure, uri: "https://platform.example/svc.Svc", token: func(int, url.Values) answer { return answer{status: 400} }, want: codes.Unauthenticated},
		"an exchange that is not there": {info: secure, uri: "https://platform.example/svc.Svc", token: func(int, url.Values) answer {
			return answer{status: 503, header: map[string]string{"Retry-After": "60"}}
		}, want: codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &platform{token: tc.token}
			c, err := p.workload(t, func(o *client.WorkloadOptions) { o.Patience = 10 * time.Second }).PerRPCCredentials()
			must(t, err)
			ctx := credentials.NewContextWithRequestInfo(t.Context(), credentials.RequestInfo{AuthInfo: tc.info})
			md, err := c.GetRequestMetadata(ctx, tc.uri)
			if status.Code(err) != tc.want || (err == nil) != (md["authorization"] == "Bearer "+accessToken(1)) {
				t.Errorf("got %v, %v; want %s", md, err, tc.want)
			}
		})
	}
}

func TestPerRPCCredentialsInClearText(t *testing.T) {
	t.Parallel()
	c, err := (&platform{}).workload(t).PerRPCCredentials()
	must(t, err)
	if _, err := grpc.NewClient("localhost:1", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(c)); err == nil {
		t.Error("gRPC takes the credentials on a connection in clear text")
	}
}

func TestACancelledCallIsCancelled(t *testing.T) {
	t.Parallel()
	p := &platform{}
	w := p.workload(t)
	c, err := w.PerRPCCredentials()
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	p.enter = func(*http.Request) { cancel() }
	p.token = func(int, url.Values) answer { <-ctx.Done(); return answer{status: 503} }
	if _, err := c.GetRequestMetadata(ctx); status.Code(err) != codes.Canceled {
		t.Errorf("got %v", err)
	}
}
