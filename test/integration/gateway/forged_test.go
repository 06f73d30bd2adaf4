//go:build unix

package gateway

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// reached are the headers that may reach the model, in whatever way a request is written.
func reached() map[string]bool {
	known := map[string]bool{}
	for _, name := range []string{
		"Accept", "Accept-Encoding", "Content-Type", "Content-Length", "User-Agent", "Traceparent", "X-Request-Id",
		"X-Nmp-Principal-Id", "X-Nmp-Principal-On-Behalf-Of", "X-Nmp-Scopes",
	} {
		known[name] = true
	}
	return known
}

// identity fails unless the model was told who calls, and nothing else that it may believe.
func identity(t *testing.T, r *http.Request) {
	t.Helper()
	for name, values := range r.Header {
		if !reached()[name] {
			t.Errorf("%s: %q reached the model", name, values)
		}
		if len(values) != 1 {
			t.Errorf("%s: %d values reached the model", name, len(values))
		}
	}
	want := map[string]string{"X-Nmp-Principal-Id": runner, "X-Nmp-Principal-On-Behalf-Of": submitter}
	got := map[string]string{}
	for name := range want {
		got[name] = r.Header.Get(name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
	for name := range r.Trailer {
		t.Errorf("trailer %s reached the model", name)
	}
}

func TestNginx(t *testing.T) {
	t.Parallel()
	p, m := newPlatform(t), newModel(t)
	g := newGateway(t, p, m)
	token := p.token(t)
	auth := "Authorization: Bearer " + token

	t.Run("forged headers never reach the model", func(t *testing.T) { forgedHeaders(t, g, m, auth) })
	t.Run("anonymous requests never reach the model", func(t *testing.T) { anonymous(t, g, m, token) })
	t.Run("the question holds the token alone", func(t *testing.T) { question(t, g, p, auth) })
	t.Run("bodies and queries pass", func(t *testing.T) { bodies(t, g, m, auth) })
	t.Run("paths that try to slip by", func(t *testing.T) { paths(t, g, m, auth) })
	t.Run("the model cannot send elsewhere", func(t *testing.T) { elsewhere(t, g, auth) })
	t.Run("whatever goes wrong at the exchange, it is closed", func(t *testing.T) { closed(t, g, p, m, auth) })
	t.Run("a revoked row counts at once", func(t *testing.T) { revoked(t, g, p, m, auth) }) // the last: nothing passes after it
}

func forgedHeaders(t *testing.T, g *gateway, m *model, auth string) {
	for name, forged := range map[string][]string{
		"nothing forged":             nil,
		"as it is":                   {"X-NMP-Principal-Id: root", "X-NMP-Principal-On-Behalf-Of: root"},
		"small letters":              {"x-nmp-principal-id: root", "x-nmp-authorized: true"},
		"twice":                      {"X-NMP-Principal-Id: root", "X-NMP-Principal-Id: admin"},
		"underscores":                {"X_NMP_Principal_Id: root", "X-NMP_Principal-Id: root", "X_NMP_INTERNAL: 1"},
		"dots and other odd letters": {"X.NMP.Principal.Id: root", "X-NMP-Principal-Id!: root", "X~NMP: root"},
		"a space before the colon":   {"X-NMP-Principal-Id : root"},
		"one of a future version":    {"X-NMP-Principal-Tenant: root", "X-NMP-Principal: root"},
		"the platform's own":         {"X-NMP-Authorized: true", "X-NMP-Internal: true", "X-NMP-Origin-Workspace: default", "X-NMP-Scopes: admin"},
		"another prefix":             {"X-NHX-Principal-Id: root"},
		"attributes left empty":      {"X-NMP-Principal-Email: root@x.example", "X-NMP-Principal-Groups: admins", "X-NMP-Principal-On-Behalf-Of-Groups: admins"},
		"named in Connection":        {"Connection: close, X-NMP-Principal-Id, X-NMP-Principal-On-Behalf-Of"},
		"hop by hop":                 {"Proxy-Connection: X-NMP-Principal-Id", "Keep-Alive: x", "TE: trailers", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"},
		"cookies and credentials":    {"Cookie: session=secret", "Cookie2: a", "Proxy-Authorization: Basic YTpi", "X-Api-Key: secret"},
		"whose request it was":       {"X-Forwarded-For: 127.0.0.1", "X-Forwarded-User: root", "X-Original-URL: /admin", "X-Real-Ip: 127.0.0.1", "Forwarded: for=root"},
		"a folded line":              {"X-Fold: a", " X-NMP-Principal-Id: root"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, before := m.last()
			resp := g.ask(t, append([]string{"GET /v1/models HTTP/1.1", "Host: model.example", auth, "Accept: */*"}, forged...)...)
			r, _, after := m.last()
			if odd := name == "a space before the colon" || name == "a folded line"; odd && resp.StatusCode == http.StatusBadRequest && after == before {
				return // nginx takes it for no HTTP at all
			}
			if resp.StatusCode != http.StatusOK || after != before+1 {
				t.Fatalf("status %d, %d requests reached the model", resp.StatusCode, after-before)
			}
			identity(t, r)
		})
	}
}

func anonymous(t *testing.T, g *gateway, m *model, token string) {
	_, _, before := m.last()
	for name, headers := range map[string][]string{
		"nothing":                    nil,
		"forged headers":             {"X-NMP-Principal-Id: root", "X-NMP-Authorized: true", "X-NMP-Internal: true"},
		"a cookie":                   {"Cookie: access_token=" + token + "; Authorization=Bearer " + token},
		"Basic":                      {"Authorization: Basic cm9vdDpyb290"},
		"no scheme":                  {"Authorization: " + token},
		"an empty token":             {"Authorization: Bearer "},
		"a broken token":             {"Authorization: Bearer " + token[:len(token)-4] + "AAAA"},
		"two tokens in one":          {"Authorization: Bearer " + token + ", Bearer " + token},
		"two headers":                {"Authorization: Bearer " + token, "Authorization: Bearer " + token},
		"another header":             {"X-Forwarded-Authorization: Bearer " + token, "X-Original-Authorization: Bearer " + token, "Proxy-Authorization: Bearer " + token},
		"an underscore":              {"Authorization_: Bearer " + token, "_Authorization: Bearer " + token},
		"a body that claims a token": {"Content-Type: application/x-www-form-urlencoded", "Content-Length: 14", "", "access_token=x"},
	} {
		for _, target := range []string{"GET /v1/models", "POST /v1/models", "OPTIONS /", "HEAD /v1", "GET /v1/models?access_token=" + token} {
			resp := g.ask(t, append([]string{target + " HTTP/1.1", "Host: model.example", "Connection: close"}, headers...)...)
			if name == "two headers" && resp.StatusCode == http.StatusBadRequest {
				continue // nginx refuses it itself
			}
			if resp.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Bearer ") {
				t.Errorf("%s, %s: status %d, %v", name, strings.Split(target, "?")[0], resp.StatusCode, resp.Header)
			}
		}
	}
	if _, _, after := m.last(); after != before {
		t.Errorf("%d requests reached the model", after-before)
	}
}

func question(t *testing.T, g *gateway, p *platform, auth string) {
	before := len(p.callouts())
	g.ask(t, "POST /v1/x/../y?access_token=evil HTTP/1.1", "Host: evil.example", auth, "Cookie: a=b", "X-Original-URL: /x", "X-NMP-Principal-Id: root",
		"If-None-Match: *", "Range: bytes=0-1", "Content-Type: text/plain", "Content-Length: 4", "", "body")
	asked := p.callouts()
	if len(asked) != before+1 {
		t.Fatalf("%d questions", len(asked)-before)
	}
	r := asked[len(asked)-1]
	for name := range r.Header {
		if name != "Authorization" {
			t.Errorf("the question holds %s: %q", name, r.Header[name])
		}
	}
	if r.Method != http.MethodGet || r.URL.RawQuery != "" || r.ContentLength != 0 || r.Host != "lanyard-exchange" {
		t.Errorf("the question is %s %s, %d bytes, to %s", r.Method, r.URL, r.ContentLength, r.Host)
	}
}

func bodies(t *testing.T, g *gateway, m *model, auth string) {
	for name, tc := range map[string]struct {
		lines []string
		want  string
	}{
		"with a length": {[]string{"Content-Length: 4", "", "text"}, "text"},
		"in chunks":     {[]string{"Transfer-Encoding: chunked", "Trailer: X-NMP-Principal-Id", "", "4", "text", "0", "X-NMP-Principal-Id: root", "", ""}, "text"},
		"of some size":  {[]string{"Content-Length: 100000", "", strings.Repeat("x", 100000)}, strings.Repeat("x", 100000)},
	} {
		resp := g.ask(t, append([]string{"POST /v1/chat%2Fcompletions?stream=true HTTP/1.1", "Host: model.example", auth, "Content-Type: application/json"}, tc.lines...)...)
		r, body, _ := m.last()
		if resp.StatusCode != http.StatusOK || body != tc.want || r.RequestURI != "/v1/chat%2Fcompletions?stream=true" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: status %d, %s with %d bytes", name, resp.StatusCode, r.RequestURI, len(body))
		}
		identity(t, r)
	}
	if resp := g.ask(t, "GET /fails HTTP/1.1", "Host: x", auth); resp.StatusCode != http.StatusInternalServerError {
		t.Errorf("the model's own error: status %d", resp.StatusCode)
	}
}

func paths(t *testing.T, g *gateway, m *model, auth string) {
	_, _, before := m.last()
	for _, path := range []string{"/_lanyard/authenticate", "/%5flanyard/authenticate", "//_lanyard/authenticate", "/x/../_lanyard/authenticate", "/@lanyard_unavailable"} {
		for _, who := range []string{"X-None: 1", auth} {
			resp := g.ask(t, "GET "+path+" HTTP/1.1", "Host: x", who)
			if want := map[bool]int{true: http.StatusNotFound, false: http.StatusUnauthorized}[!strings.Contains(path, "@")]; resp.StatusCode != want && (who != auth || want != http.StatusUnauthorized) {
				t.Errorf("%s: status %d, want %d", path, resp.StatusCode, want)
			}
		}
	}
	for _, path := range []string{"//v1//models", "/..%2f..%2fv1", "/v1/models;x=y", "/v1/./models", "/%00", "*", "http://model.example/v1", "/v1/models#x"} {
		if resp := g.ask(t, "GET "+path+" HTTP/1.1", "Host: x"); resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d", path, resp.StatusCode)
		}
	}
	if _, _, after := m.last(); after > before+1 { // "/@..." with a token is a path like others
		t.Errorf("%d requests reached the model", after-before)
	}
}

func elsewhere(t *testing.T, g *gateway, auth string) {
	resp := g.ask(t, "GET /sends-elsewhere HTTP/1.1", "Host: x", auth)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("X-Nmp-Principal-Id") != "" {
		t.Errorf("status %d, %v", resp.StatusCode, resp.Header)
	}
}

func closed(t *testing.T, g *gateway, p *platform, m *model, auth string) {
	defer p.instead.Store(nil)
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   int
	}{
		"500": {status(500), 503},
		"503": {status(503), 503},
		"429": {status(429), 503},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://x.example", http.StatusFound)
		}, 503},
		"not found":                 {status(404), 503},
		"not modified":              {status(304), 503},
		"forbidden":                 {status(403), 403},
		"the connection is cut":     {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 503},
		"yes, but it names nobody":  {status(200), 503},
		"yes, to an empty name":     {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-NMP-Principal-Id", "") }, 503},
		"yes, but not the exchange": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>welcome")) }, 503},
	} {
		_, _, before := m.last()
		p.answers(tc.answer)
		resp := g.ask(t, "GET /v1 HTTP/1.1", "Host: x", auth, "X-NMP-Principal-Id: root")
		if _, _, after := m.last(); resp.StatusCode != tc.want || after != before {
			t.Errorf("%s: status %d, want %d; %d requests reached the model", name, resp.StatusCode, tc.want, after-before)
		}
	}
	p.instead.Store(nil)
	p.store.down.Store(true)
	_, _, before := m.last()
	resp := g.ask(t, "GET /v1 HTTP/1.1", "Host: x", auth)
	if _, _, after := m.last(); resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "5" || after != before {
		t.Errorf("the store is down: status %d, %v; %d requests reached the model", resp.StatusCode, resp.Header, after-before)
	}
	p.store.down.Store(false)
}

func TestNginxWithoutItsExchange(t *testing.T) {
	t.Parallel()
	p, m, other := newPlatform(t), newModel(t), newPlatform(t)
	auth := "Authorization: Bearer " + p.token(t)
	other.answers(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-NMP-Principal-Id", "root") })
	for name, exchange := range map[string]*platform{
		"nobody listens":                  {address: freeAddress(t), dir: p.dir},
		"a server that no CA vouches for": {address: other.address, dir: p.dir},
	} {
		g := newGateway(t, exchange, m)
		resp := g.ask(t, "GET /v1 HTTP/1.1", "Host: x", auth)
		if _, _, n := m.last(); resp.StatusCode != http.StatusServiceUnavailable || n != 0 {
			t.Errorf("%s: status %d, %d requests reached the model", name, resp.StatusCode, n)
		}
	}
	if asked := other.callouts(); len(asked) != 0 {
		t.Errorf("the token was sent to a stranger, %d times", len(asked))
	}
}

func revoked(t *testing.T, g *gateway, p *platform, m *model, auth string) {
	if resp := g.ask(t, "GET /v1 HTTP/1.1", "Host: x", auth); resp.StatusCode != http.StatusOK {
		t.Fatalf("before: status %d", resp.StatusCode)
	}
	_, err := p.store.Revoke(t.Context(), delegation.Revocation{Row: p.row, Reason: delegation.RowRevoked, At: time.Now()})
	must(t, err)
	_, _, before := m.last()
	resp := g.ask(t, "GET /v1 HTTP/1.1", "Host: x", auth)
	if _, _, after := m.last(); resp.StatusCode != http.StatusUnauthorized || after != before {
		t.Errorf("afterwards: status %d, %d requests reached the model", resp.StatusCode, after-before)
	}
}
