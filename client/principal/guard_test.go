package principal_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/client/principal"
)

// echo answers with the headers that a handler behind a guard sees.
func echo(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	seen := map[string][]string{}
	for name, values := range r.Header {
		lower := strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(name))
		if strings.HasPrefix(lower, "x-n") || lower == "connection" {
			seen[name] = values
		}
	}
	for name := range r.Trailer {
		seen["trailer "+name] = nil
	}
	who, _ := principal.FromContext(r.Context())
	behalf, _ := principal.OnBehalfOf(r.Context())
	_ = json.NewEncoder(w).Encode(map[string]any{"headers": seen, "id": who.ID, "behalf": behalf})
}

// ask sends a request as it is written, and returns the answer.
func ask(t *testing.T, s *httptest.Server, lines ...string) (*http.Response, string) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL, "http://"))
	must(t, err)
	defer conn.Close()
	if len(lines) == 0 || !strings.HasPrefix(lines[0], "GET ") && !strings.HasPrefix(lines[0], "POST ") {
		lines = append([]string{"GET /v1 HTTP/1.1"}, lines...)
	}
	raw := lines[0] + "\r\nHost: api.example\r\n" + strings.Join(lines[1:], "\r\n")
	if !strings.Contains(raw, "\r\n\r\n") {
		raw += "\r\n\r\n"
	}
	_, err = conn.Write([]byte(raw))
	must(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	_ = resp.Body.Close()
	return resp, string(body)
}

func TestForgedHeadersNeverReachTheHandler(t *testing.T) {
	t.Parallel()
	k := newSigner(t, "k", jose.ES256)
	s := httptest.NewServer(publishes(t, k).guard(t).Wrap(http.HandlerFunc(echo)))
	t.Cleanup(s.Close)
	auth := "Authorization: Bearer " + k.token(t, map[string]string{"email": `"a@x.example"`, "groups": `"ml"`, "scope": `"openid"`})
	want := fmt.Sprintf(`{"behalf":"alice","headers":{"X-Nmp-Principal-Email":[""],"X-Nmp-Principal-Groups":[""],"X-Nmp-Principal-Id":[%q],"X-Nmp-Principal-On-Behalf-Of":["alice"],`+
		`"X-Nmp-Principal-On-Behalf-Of-Email":["a@x.example"],"X-Nmp-Principal-On-Behalf-Of-Groups":["ml"],"X-Nmp-Scopes":["openid"]},"id":%q}`+"\n", runner, runner)
	for name, forged := range map[string][]string{
		"nothing forged":            nil,
		"as it is":                  {"X-NMP-Principal-Id: root"},
		"small letters":             {"x-nmp-principal-id: root", "x-nmp-authorized: true"},
		"twice":                     {"X-NMP-Principal-Id: root", "X-NMP-Principal-Id: admin"},
		"underscores":               {"X_NMP_Principal_Id: root", "X-NMP_PRINCIPAL-ID: root", "x_nmp_internal: 1"},
		"dots":                      {"X.NMP.Principal.Id: root"},
		"one that nobody knows yet": {"X-NMP-Principal-Tenant: root", "X-NMP-Principal: root"},
		"the platform's own":        {"X-NMP-Authorized: true", "X-NMP-Internal: true", "X-NMP-Origin-Workspace: default", "X-NMP-Scopes: admin"},
		"named in Connection":       {"Connection: keep-alive, X-NMP-Principal-Id, x_nmp_scopes"},
		"a trailer":                 {"Trailer: X-NMP-Principal-Id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp, body := ask(t, s, append([]string{"GET /v1 HTTP/1.1", auth}, forged...)...)
			body = strings.Replace(body, `"Connection":["keep-alive"],`, "", 1)
			if diff := cmp.Diff(want, body); resp.StatusCode != 200 || diff != "" {
				t.Errorf("status %d (-want +got):\n%s", resp.StatusCode, diff)
			}
		})
	}
}

func TestForgedTrailersNeverReachTheHandler(t *testing.T) {
	t.Parallel()
	k := newSigner(t, "k", jose.ES256)
	s := httptest.NewServer(publishes(t, k).guard(t).Wrap(http.HandlerFunc(echo)))
	t.Cleanup(s.Close)
	resp, body := ask(t, s, "POST /v1 HTTP/1.1", "Authorization: Bearer "+k.token(t, nil), "Transfer-Encoding: chunked", "Trailer: X-NMP-Principal-Id", "",
		"1", "x", "0", "X-NMP-Principal-Id: root", "", "")
	if resp.StatusCode != 200 || strings.Contains(body, "root") || strings.Contains(body, "trailer") {
		t.Errorf("status %d: %s", resp.StatusCode, body)
	}
}

func TestAConnectionHeaderDoesNotStripThemOnTheWayOn(t *testing.T) {
	t.Parallel()
	k := newSigner(t, "k", jose.ES256)
	behind := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(behind.Close)
	to, err := url.Parse(behind.URL)
	must(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	s := httptest.NewServer(publishes(t, k).guard(t).Wrap(proxy))
	t.Cleanup(s.Close)
	_, body := ask(t, s, "GET /v1 HTTP/1.1", "Authorization: Bearer "+k.token(t, nil), "Connection: X-NMP-Principal-Id, X-Nmp-Principal-On-Behalf-Of, close")
	if !strings.Contains(body, `"X-Nmp-Principal-Id":["`+runner+`"]`) || !strings.Contains(body, `"X-Nmp-Principal-On-Behalf-Of":["alice"]`) {
		t.Errorf("the service behind got %s", body)
	}
}

func TestOtherPrefixes(t *testing.T) {
	t.Parallel()
	k := newSigner(t, "k", jose.ES256)
	g := publishes(t, k).guard(t, func(o *principal.Options) { o.HeaderPrefixes = []string{"X-NMP-", "X-NHX-"} })
	s := httptest.NewServer(g.Wrap(http.HandlerFunc(echo)))
	t.Cleanup(s.Close)
	_, body := ask(t, s, "GET /v1 HTTP/1.1", "Authorization: Bearer "+k.token(t, nil), "X-NHX-Principal-Id: root", "X-NHX-Internal: 1")
	if strings.Contains(body, "root") || strings.Contains(body, "Internal") || !strings.Contains(body, `"X-Nhx-Principal-Id":["`+runner) || !strings.Contains(body, `"X-Nmp-Principal-Id":["`+runner) {
		t.Errorf("got %s", body)
	}
}

func TestWhatIsAnsweredWithoutAGoodToken(t *testing.T) {
	t.Parallel()
	k := newSigner(t, "k", jose.ES256)
	good, stale := k.token(t, nil), k.token(t, map[string]string{"exp": "1"})
	var why principal.Reason
	g := publishes(t, k).guard(t, func(o *principal.Options) { o.Refused = func(_ *http.Request, r principal.Reason) { why = r } })
	reached := false
	h := g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	for name, tc := range map[string]struct {
		target string
		header http.Header
		want   principal.Reason
	}{
		"anonymous":            {want: principal.NoToken},
		"forged headers alone": {header: http.Header{"X-Nmp-Principal-Id": {"root"}, "X-Nmp-Authorized": {"true"}}, want: principal.NoToken},
		"in the query":         {target: "/?access_token=" + good, want: principal.NoToken},
		"in a cookie":          {header: http.Header{"Cookie": {"access_token=" + good + "; Authorization=Bearer " + good}}, want: principal.NoToken},
		"in another header":    {header: http.Header{"X-Forwarded-Authorization": {"Bearer " + good}, "Proxy-Authorization": {"Bearer " + good}}, want: principal.NoToken},
		"Basic":                {header: http.Header{"Authorization": {"Basic YTpi"}}, want: principal.NoToken},
		"no scheme":            {header: http.Header{"Authorization": {good}}, want: principal.NoToken},
		"two headers":          {header: http.Header{"Authorization": {"Bearer " + good, "Bearer " + good}}, want: principal.NoToken},
		"two tokens in one":    {header: http.Header{"Authorization": {"Bearer " + good + ", Bearer " + good}}, want: principal.NoToken},
		"an empty token":       {header: http.Header{"Authorization": {"Bearer "}}, want: principal.NoToken},
		"an expired token":     {header: http.Header{"Authorization": {"Bearer " + stale}}, want: principal.Expired},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+strings.TrimPrefix(tc.target, "/"), nil)
		r.Header = tc.header
		if r.Header == nil {
			r.Header = http.Header{}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		challenge := w.Header().Get("WWW-Authenticate")
		if w.Code != 401 || why != tc.want || reached || !strings.HasPrefix(challenge, `Bearer realm="lanyard"`) || strings.Contains(challenge, "invalid_token") != (tc.want != principal.NoToken) {
			t.Errorf("%s: %d, %s, %q, reached %t; want %s", name, w.Code, why, challenge, reached, tc.want)
		}
		if w.Header().Get("Cache-Control") != "no-store" || strings.Contains(w.Body.String(), string(principal.Expired)) {
			t.Errorf("%s: %v, %s", name, w.Header(), w.Body)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "bearer "+good)
	if h.ServeHTTP(httptest.NewRecorder(), r); !reached {
		t.Error("a scheme in small letters was refused")
	}
}

func TestWithoutKeysTheAnswerIsNoVerdict(t *testing.T) {
	t.Parallel()
	k, next := newSigner(t, "k", jose.ES256), newSigner(t, "next", jose.ES256)
	for name, fresh := range map[string]bool{"no keys": false, "fresh keys, and none of this id": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := publishes(t, k)
				g := p.guard(t)
				if fresh {
					refuse(t, g, "before", k.token(t, nil), "")
					pass(30 * time.Second)
				}
				p.fail(true)
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
				r.Header.Set("Authorization", "Bearer "+next.token(t, nil))
				w := httptest.NewRecorder()
				g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("let pass") })).ServeHTTP(w, r)
				if w.Code != 503 || w.Header().Get("Retry-After") == "" || w.Header().Get("WWW-Authenticate") != "" {
					t.Errorf("%d, %v", w.Code, w.Header())
				}
			})
		})
	}
}

func TestOptionsThatAreNoGood(t *testing.T) {
	t.Parallel()
	good := principal.Options{BaseURL: "https://x", Issuer: issuer, Audience: audience}
	for name, tc := range map[string]struct {
		change func(*principal.Options)
		want   string
	}{
		"as they should be": {func(*principal.Options) {}, ""},
		"no issuer":         {func(o *principal.Options) { o.Issuer = "" }, "needs an issuer and an audience"},
		"no audience":       {func(o *principal.Options) { o.Audience = "" }, "needs an issuer and an audience"},
		"clear text":        {func(o *principal.Options) { o.BaseURL = "http://x.example" }, "must be https"},
		"a password":        {func(o *principal.Options) { o.BaseURL = "https://u:hunter2@x.example" }, "must hold no user"},
		"no CA":             {func(o *principal.Options) { o.CAFile = "/nowhere/ca" }, "read the CA file"},
		"an empty prefix":   {func(o *principal.Options) { o.HeaderPrefixes = []string{""} }, "header prefix"},
		"a prefix of words": {func(o *principal.Options) { o.HeaderPrefixes = []string{"X NMP-"} }, "header prefix"},
	} {
		o := good
		tc.change(&o)
		g, err := principal.NewGuard(o)
		if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if err == nil {
			g.Close()
		}
	}
}
