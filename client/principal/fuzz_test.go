package principal_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// FuzzForgedNames: whatever a client calls a header, a handler finds nothing under a trusted name, read as laxly as anybody does, but what
// the token says.
func FuzzForgedNames(f *testing.F) {
	for _, name := range []string{"X-NMP-Principal-Id", "x_nmp_principal_id", "X.Nmp.Principal", "X-NMP-Principal-Id ", "Connection", "Trailer", "x-nmp_scopes", "X-NMP-Principalx", "Accept"} {
		f.Add(name, "X-NMP-Principal-Id, close")
	}
	k := newSigner(f, "k", jose.ES256)
	token := k.token(f, nil)
	g := publishes(f, k).guard(f)
	good := map[string]string{"x-nmp-principal-id": runner, "x-nmp-principal-on-behalf-of": "alice"}
	lax := func(name string) string {
		return strings.NewReplacer("_", "-", ".", "-", " ", "").Replace(strings.ToLower(name))
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header[name] = []string{value}
		r.Header[http.CanonicalHeaderKey(name)] = []string{value, value}
		r.Header.Set("Authorization", "Bearer "+token)
		g.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			count := 0
			for name, values := range r.Header {
				read := lax(name)
				if !strings.HasPrefix(read, "x-nmp-principal") && read != "x-nmp-scopes" && read != "x-nmp-internal" && read != "x-nmp-authorized" {
					continue
				}
				count++
				if name != http.CanonicalHeaderKey(name) || len(values) != 1 || values[0] != good[read] {
					t.Errorf("%q: %q reached the handler", name, values)
				}
			}
			if count != 7 {
				t.Errorf("%d trusted headers", count)
			}
			for named := range strings.SplitSeq(strings.Join(r.Header["Connection"], ","), ",") {
				if strings.HasPrefix(lax(named), "x-nmp-principal") {
					t.Errorf("Connection names %q", named)
				}
			}
		})).ServeHTTP(httptest.NewRecorder(), r)
	})
}
