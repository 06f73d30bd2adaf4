package exchange_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange"
)

// each runs rows against a desk of its own, whose pod has a row unless bare says otherwise.
func each(t *testing.T, rows map[string]func(*testing.T, *rig), bare ...string) {
	t.Helper()
	for name, try := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "")
			if !slices.Contains(bare, name) {
				r.delegated()
			}
			try(t, r)
		})
	}
}

// TestAnswersOfSuccess is what of checklists C and D no other table has.
func TestAnswersOfSuccess(t *testing.T) {
	t.Parallel()
	each(t, map[string]func(t *testing.T, r *rig){
		"C2: two audiences (the spec's own: one)": func(t *testing.T, r *rig) {
			a := r.raw(wire.PathToken, wire.FormType, form(good()).Encode()+"&audience="+issuedA+"&audience=other")
			r.check(a, wanted{400, "invalid_request", "parameter_repeated"})
		},
		"D1: members": func(t *testing.T, r *rig) {
			want := []string{"access_token", "expires_in", "issued_token_type", "scope", "token_type"}
			if diff := cmp.Diff(want, slices.Sorted(maps.Keys(r.granted().body))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		},
		"D2: no refresh token": func(t *testing.T, r *rig) {
			a := r.post(form(good(), "scope", "offline_access openid"))
			if _, given := a.body["refresh_token"]; given || a.status != 200 || a.body["scope"] != "openid" {
				t.Errorf("got %d with scope %v", a.status, a.body["scope"])
			}
		},
		"D3: nothing is cached": func(t *testing.T, r *rig) {
			for _, a := range []answer{r.granted(), r.post(form("x")), r.get(wire.PathToken), r.raw(wire.PathToken, "text/plain", "")} {
				if a.header.Get("Cache-Control") != "no-store" || a.header.Get("Pragma") != "no-cache" {
					t.Errorf("%d: %q %q", a.status, a.header.Get("Cache-Control"), a.header.Get("Pragma"))
				}
			}
		},
		"D4: no ETag, cookie, CORS": func(t *testing.T, r *rig) {
			for _, method := range []string{http.MethodPost, http.MethodOptions} {
				req := r.request(method, wire.PathToken, strings.NewReader(form(good()).Encode()))
				req.Header.Set("Content-Type", wire.FormType)
				req.Header.Set("Origin", "https://elsewhere.example")
				req.Header.Set("Access-Control-Request-Method", "POST")
				for header := range r.do(req).header {
					if header == "Etag" || header == "Set-Cookie" || strings.HasPrefix(header, "Access-Control-") {
						t.Errorf("%s: %s", method, header)
					}
				}
			}
		},
	})
}

// TestAnswersOfFailure is checklist E.
func TestAnswersOfFailure(t *testing.T) {
	t.Parallel()
	each(t, map[string]func(t *testing.T, r *rig){
		"E1: errors by condition": func(t *testing.T, r *rig) {
			statuses := map[string]int{"invalid_request": 400, "invalid_target": 400, "unsupported_grant_type": 400, "invalid_client": 401}
			for _, change := range [][]string{{"subject_token", "x"}, {"audience", "x"}, {"grant_type", "x"}, {"client_id", "x"}} {
				a := r.post(form(good(), change...))
				if want, known := statuses[a.code()]; !known || a.status != want {
					t.Errorf("%v: %d %s", change, a.status, a.code())
				}
				delete(statuses, a.code())
			}
			if len(statuses) > 0 {
				t.Errorf("never answered: %v", statuses)
			}
		},
		"E2: characters of descriptions": func(t *testing.T, r *rig) {
			for _, bad := range []string{"a\"b", "a\\b", "a\nb", "ü", "\x7f"} {
				for _, key := range []string{"grant_type", "client_id", "subject_token_type", "requested_token_type", "audience", "resource", "subject_token"} {
					text, _ := r.post(form(good(), key, bad)).body["error_description"].(string)
					if strings.ContainsFunc(text, func(c rune) bool { return c < 0x20 || c == '"' || c == '\\' || c > 0x7e }) || strings.Contains(text, bad) {
						t.Errorf("%s=%q is described by %q", key, bad, text)
					}
				}
			}
		},
		"E3: descriptions say little": func(t *testing.T, r *rig) {
			said := map[string]bool{}
			note := func(a answer) {
				text, _ := a.body["error_description"].(string)
				said[text] = true
				if a.status != 400 || strings.Contains(a.text, marker) || strings.Contains(a.text, submitter) || strings.Contains(a.text, "revoked") {
					t.Errorf("%d %s", a.status, a.text)
				}
			}
			r.api.answers(authenticationv1.TokenReviewStatus{Error: "the token has expired"}, nil)
			note(r.post(form(good())))
			r.api.answers(changed(func(s *authenticationv1.TokenReviewStatus) { s.User.Extra = nil }), nil)
			note(r.post(form(subject("unbound", subjectA, time.Now().Add(time.Hour)))))
			r.api.answers(yes(podUID), nil)
			_, err := r.store.Revoke(t.Context(), delegation.Revocation{Row: row(), Reason: delegation.PodEnded, At: time.Now()})
			must(t, err)
			note(r.post(form(subject("revoked", subjectA, time.Now().Add(time.Hour)))))
			if len(said) != 1 {
				t.Errorf("refused proofs are described by %v", slices.Sorted(maps.Keys(said)))
			}
		},
		"E4: one reason for each failure": func(t *testing.T, r *rig) {
			total := func() (n float64) {
				for _, outcome := range exchange.Outcomes() {
					n += r.count(outcome)
				}
				return n
			}
			for i, change := range [][]string{nil, {"audience", "x"}, {"subject_token", "x"}, {"grant_type", ""}, {"resource", "x"}} {
				r.post(form(good(), change...))
				if got := total(); got != float64(i+1) {
					t.Errorf("%v requests are counted after %d", got, i+1)
				}
			}
		},
	})
}

// TestProofsAtRest is what of checklists F and G no other table has.
func TestProofsAtRest(t *testing.T) {
	t.Parallel()
	each(t, map[string]func(t *testing.T, r *rig){
		"F12: a finished pod": func(t *testing.T, r *rig) {
			_, err := r.store.Revoke(t.Context(), delegation.Revocation{Row: row(), Reason: delegation.PodEnded, At: time.Now()})
			must(t, err)
			r.check(r.post(form(good())), wanted{400, "invalid_request", "row_revoked"}) // though the review says yes
		},
		"G7: what is stored": func(t *testing.T, r *rig) {
			p, err := delegation.NewProof(delegation.DockerName("default", "job", "train", "1"), delegation.Secret{31: 7})
			must(t, err)
			sum := sha256.Sum256(append(make([]byte, 31), 7))
			if want := "v1:sha256:" + base64.RawURLEncoding.EncodeToString(sum[:]); string(p.Hash()) != want || strings.Contains(want, p.Token()[len(p.Token())-43:]) {
				t.Errorf("stored as %s", p.Hash())
			}
		},
	})
}

// TestTransportOfTheServer is what of checklist A a form cannot show.
func TestTransportOfTheServer(t *testing.T) {
	t.Parallel()
	t.Run("A10: TLS", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, "")
		l, err := net.Listen("tcp", "0.0.0.0:0")
		must(t, err)
		defer func() { _ = l.Close() }()
		if _, err := exchange.Serve(l, exchange.NewServer(r.desk, nil, 0, logr.Discard()), time.Second, nil, logr.Discard()); err == nil || !strings.Contains(err.Error(), "without a certificate only a loopback address is served") {
			t.Errorf("plain HTTP for everybody: %v", err)
		}
	})
	t.Run("A12: slow bodies", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, "")
		s := exchange.NewServer(r.desk, nil, 0, logr.Discard())
		s.ReadTimeout /= 50 // the same deadline, without ten seconds of waiting
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		go func() { _ = s.Serve(l) }()
		defer func() { _ = s.Close() }()
		conn, err := net.Dial("tcp", l.Addr().String())
		must(t, err)
		defer func() { _ = conn.Close() }()
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: 1000\r\n\r\ng", wire.PathToken, wire.FormType)
		must(t, err)
		must(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
		buffer := make([]byte, 1<<10)
		for n := 0; ; { // whatever is answered, the connection ends
			n, err = conn.Read(buffer)
			if err != nil {
				break
			}
			if strings.Contains(string(buffer[:n]), "access_token") {
				t.Error("a token for half a form")
			}
		}
		if errorIsTimeout(err) {
			t.Error("the connection is still open")
		}
	})
}

func errorIsTimeout(err error) bool {
	n, ok := err.(net.Error) //nolint:errorlint // net's own way
	return ok && n.Timeout()
}
