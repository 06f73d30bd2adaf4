package client_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/client"
)

// subjectMarker stands in every subject token, tokenMarker in every access token.
const (
	subjectMarker = "c3ViamVjdA"
	tokenMarker   = "YWNjZXNz"
)

// platform is the platform's side of an exchange, and an API, without a network. It answers what a test wants it to.
type platform struct {
	base     string
	document string                              // the discovery document; "" means a good one
	token    func(n int, form url.Values) answer // the nth exchange, from 1; nil means a good one
	api      func(r *http.Request) (status int)  // any other path; nil means 200
	enter    func(r *http.Request)               // at the start of each exchange, outside of the lock
	mu       sync.Mutex
	forms    []url.Values
	times    []time.Time
	found    int      // discoveries
	bearers  []string // what the API was sent
}

// answer is an HTTP answer.
type answer struct {
	status int
	header map[string]string
	body   string
	err    error
}

// granted is a good answer, whose token tells its number.
func granted(n, seconds int) answer {
	return answer{body: fmt.Sprintf(`{"access_token":"h.%s.%d","issued_token_type":%q,"token_type":"Bearer","expires_in":%d,"scope":null}`,
		tokenMarker, n, wire.TokenTypeAccess, seconds)}
}

// accessToken is the token of the nth good answer.
func accessToken(n int) string { return fmt.Sprintf("h.%s.%d", tokenMarker, n) }

func (p *platform) discovery() string {
	return fmt.Sprintf(`{"auth_enabled":true,"oidc":{"issuer":"i","token_endpoint":null,"client_id":"web","default_scopes":"openid","workload_token_exchange_enabled":true,`+
		`"workload_client_id":"nemo-platform","workload_token_endpoint":%q,"workload_audience":"nemo-platform-api","workload_scope":null}}`, p.base+wire.PathToken)
}

// RoundTrip answers a request.
func (p *platform) RoundTrip(r *http.Request) (*http.Response, error) {
	a := p.handle(r)
	if a.err != nil {
		return nil, a.err
	}
	resp := &http.Response{StatusCode: max(a.status, 200), Header: http.Header{}, Body: io.NopCloser(strings.NewReader(a.body)), Request: r, ProtoMajor: 1, ProtoMinor: 1}
	if a.status == 0 {
		resp.StatusCode = 200
	}
	for k, v := range a.header {
		resp.Header.Set(k, v)
	}
	return resp, nil
}

func (p *platform) handle(r *http.Request) answer {
	switch r.URL.Path {
	case wire.PathDiscovery:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.found++
		if p.document != "" {
			return answer{body: p.document}
		}
		return answer{body: p.discovery()}
	case wire.PathToken:
		if p.enter != nil {
			p.enter(r)
		}
		raw, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(raw))
		p.mu.Lock()
		p.forms, p.times = append(p.forms, form), append(p.times, time.Now())
		n := len(p.forms)
		p.mu.Unlock()
		if p.token != nil {
			return p.token(n, form)
		}
		return granted(n, 300)
	default:
		p.mu.Lock()
		p.bearers = append(p.bearers, r.Header.Get("Authorization"))
		p.mu.Unlock()
		if p.api != nil {
			return answer{status: p.api(r)}
		}
		return answer{}
	}
}

func (p *platform) exchanges() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.forms)
}

// subjectFile is a token file.
func subjectFile(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

// workload is an identity at a platform.
func (p *platform) workload(t *testing.T, change ...func(*client.WorkloadOptions)) *client.Workload {
	t.Helper()
	p.base = "https://platform.example"
	o := client.WorkloadOptions{TokenFile: subjectFile(t, "h."+subjectMarker+".s\n"), BaseURL: p.base, Transport: p}
	for _, c := range change {
		c(&o)
	}
	w, err := client.NewWorkload(o)
	must(t, err)
	t.Cleanup(w.Close)
	return w
}

// token is a token, or "" with the error.
func token(t *testing.T, w *client.Workload) (string, error) {
	t.Helper()
	got, err := w.TokenContext(t.Context())
	if err != nil {
		return "", err
	}
	return got.AccessToken, nil
}

// holds fails unless the workload gives out the nth token.
func holds(t *testing.T, w *client.Workload, n int) {
	t.Helper()
	got, err := token(t, w)
	if err != nil || got != accessToken(n) {
		t.Helper()
		t.Errorf("token %q, %v; want number %d", got, err, n)
	}
}

// pass lets a bubble's clock go on.
func pass(d time.Duration) { <-time.After(d) }
