//go:build unix

package gateway

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/certs"
	"github.com/lanyard-k8s/lanyard/client/principal"
)

// guard is a Go service's, which trusts the platform's exchange.
func (p *platform) guard(t *testing.T, change ...func(*principal.Options)) *principal.Guard {
	t.Helper()
	o := principal.Options{BaseURL: "https://" + p.address, CAFile: filepath.Join(p.dir, certs.CAFile), Issuer: issuer, Audience: wire.DefaultWorkloadAudience}
	for _, c := range change {
		c(&o)
	}
	g, err := principal.NewGuard(o)
	must(t, err)
	t.Cleanup(g.Close)
	return g
}

// trustedHeaders are those of an exchange's answer, or of a request that a guard let pass.
func trustedHeaders(h http.Header) map[string][]string {
	found := map[string][]string{}
	for name, values := range h {
		if strings.HasPrefix(name, "X-N") {
			found[name] = values
		}
	}
	return found
}

// respelled is a token whose last character has other bits where it means nothing.
func respelled(token string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := len(token) - 1
	return token[:last] + alphabet[strings.IndexByte(alphabet, token[last])+1:][:1]
}

// TestAServiceAndAGatewaySayTheSame holds the middleware to the callout: the same tokens pass, with the same headers.
func TestAServiceAndAGatewaySayTheSame(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	token, stranger := p.token(t), newPlatform(t).token(t)
	// A workload's transport trusts the CA; to places that are none of its origins it adds no token.
	plain, err := p.workload(t).RoundTripper(nil, "https://elsewhere.example")
	must(t, err)
	for name, tc := range map[string]struct {
		headers http.Header
		want    int
	}{
		"a good token":               {http.Header{"Authorization": {"Bearer " + token}}, 200},
		"and forged headers":         {http.Header{"Authorization": {"Bearer " + token}, "X-Nmp-Principal-Id": {"root"}, "X-Nmp-Internal": {"1"}}, 200},
		"no token":                   {http.Header{}, 401},
		"another exchange's token":   {http.Header{"Authorization": {"Bearer " + stranger}}, 401},
		"a signature that is off":    {http.Header{"Authorization": {"Bearer " + token[:len(token)-6] + "AAAAAA"}}, 401},
		"the signature spelled anew": {http.Header{"Authorization": {"Bearer " + respelled(token)}}, 401},
		"two headers":                {http.Header{"Authorization": {"Bearer " + token, "Bearer " + token}}, 401},
		"a subject token, not ours":  {http.Header{"Authorization": {"Bearer eyJhbGciOiJSUzI1NiJ9.e30.c2ln"}}, 401},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+p.address+wire.PathAuthenticate+"/v1", nil)
			must(t, err)
			req.Header = tc.headers.Clone()
			resp, err := (&http.Client{Transport: plain}).Do(req)
			must(t, err)
			_ = resp.Body.Close()
			seen, code := http.Header{}, 0
			inner := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Header })
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1", nil)
			r.Header = tc.headers.Clone()
			p.guard(t).Wrap(inner).ServeHTTP(w, r)
			if code = w.Code; code != tc.want || resp.StatusCode != tc.want || resp.Header.Get("WWW-Authenticate") != w.Header().Get("WWW-Authenticate") {
				t.Errorf("the service answers %d %q, the exchange %d %q, want %d", code, w.Header().Get("WWW-Authenticate"), resp.StatusCode, resp.Header.Get("WWW-Authenticate"), tc.want)
			}
			if diff := cmp.Diff(trustedHeaders(resp.Header), trustedHeaders(seen)); diff != "" {
				t.Errorf("trusted headers (-exchange +service):\n%s", diff)
			}
		})
	}
}

func TestAServiceOfAnotherAudience(t *testing.T) {
	t.Parallel()
	p := newPlatform(t)
	g := p.guard(t, func(o *principal.Options) { o.Audience = "billing" })
	if _, err := g.Verify(t.Context(), p.token(t)); principal.ReasonOf(err) != principal.BadAudience {
		t.Errorf("got %v", err)
	}
}
