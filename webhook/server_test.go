package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is a fixed certificate, made by the standard library alone: front desks do not import each other.
type pair struct {
	cert  tls.Certificate
	roots *x509.CertPool
	bad   error
}

func (p *pair) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &p.cert, p.bad }
func (p *pair) Check() error                                                  { return p.bad }

// replica is a running server.
type replica struct {
	url   string
	desk  *Desk
	ready *Readiness
	stop  context.CancelFunc
	done  chan error
}

func serve(t testing.TB, p *pair, drain time.Duration, edits ...func(*Options)) *replica {
	t.Helper()
	d, _ := newDesk(t, edits...)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &replica{
		url: "https://" + l.Addr().String(), desk: d, ready: NewReadiness(d, p, l.Addr().String()), stop: cancel, done: make(chan error, 1),
	}
	s := &Server{Desk: d, Certs: p, Listener: l, DrainDelay: drain, Log: logr.Discard()}
	go func() { r.done <- s.Run(ctx) }()
	return r
}

// end stops the replica and waits for it.
func (r *replica) end(t testing.TB) {
	t.Helper()
	r.stop()
	if err := timing.Next(t, time.Minute, "the replica ends", r.done); err != nil {
		t.Errorf("ended with %v", err)
	}
}

func client(p *pair) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.roots}, MaxIdleConnsPerHost: 64}, Timeout: time.Minute}
}

// call sends one review as the API server would and says what went wrong with it.
func call(c *http.Client, base string, body []byte) (closing bool, err error) {
	resp, err := c.Post(base+wire.PathMutateJob, "application/json", bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	raw, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return false, err
	}
	var out struct{ Response struct{ Allowed bool } }
	if err := json.Unmarshal(raw, &out); err != nil || resp.StatusCode != http.StatusOK || !out.Response.Allowed {
		return false, fmt.Errorf("code %d, body %s", resp.StatusCode, raw)
	}
	return resp.Close, nil
}

func TestServerSpeaksHTTP1OverTLS12AndUp(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	r := serve(t, p, 0)
	defer r.end(t)
	for name, tc := range map[string]struct {
		version uint16
		wantOK  bool
	}{"TLS 1.1": {tls.VersionTLS11, false}, "TLS 1.2": {tls.VersionTLS12, true}, "TLS 1.3": {tls.VersionTLS13, true}} {
		conn, err := tls.Dial("tcp", r.url[len("https://"):], &tls.Config{
			RootCAs: p.roots, MinVersion: tc.version, MaxVersion: tc.version, NextProtos: []string{"h2", "http/1.1"}})
		if (err == nil) != tc.wantOK {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			if got := conn.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
				t.Errorf("%s: speaks %q", name, got)
			}
			_ = conn.Close()
		}
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	r := serve(t, p, 0)
	defer r.end(t)
	if err := r.ready.Check(nil); err != nil {
		t.Errorf("a serving server: %v", err)
	}
	other := NewReadiness(r.desk, newPair(t), r.url[len("https://"):])
	if err := other.Check(nil); err == nil {
		t.Error("a server with another certificate is ready")
	}
	nobody := NewReadiness(r.desk, p, "127.0.0.1:1")
	if err := nobody.Check(nil); err == nil {
		t.Error("a server that does not answer is ready")
	}
	bad := NewReadiness(r.desk, &pair{bad: errors.New("no certificate")}, r.url[len("https://"):])
	if err := bad.Check(nil); err == nil {
		t.Error("a server without a certificate is ready")
	}
	r.desk.Drain()
	if err := r.ready.Check(nil); err == nil || err.Error() != "draining" {
		t.Errorf("a draining server: %v", err)
	}
}

func TestDrainingServerAnswersAndClosesConnections(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	r := serve(t, p, 3*time.Second) // more than a busy machine takes for the call that follows
	c := client(p)
	defer c.CloseIdleConnections()
	body := ask{}.body()
	if closing, err := call(c, r.url, body); err != nil || closing {
		t.Errorf("before: closing %v, %v", closing, err)
	}
	r.stop()
	timing.Within(t, time.Minute, "the server is draining", func() bool {
		if _, err := call(c, r.url, body); err != nil {
			t.Fatal(err)
		}
		return r.desk.draining.Load()
	})
	if closing, err := call(c, r.url, body); err != nil || !closing {
		t.Errorf("while draining: closing %v, %v", closing, err)
	}
	if err := timing.Next(t, time.Minute, "the server ends", r.done); err != nil {
		t.Error(err)
	}
	if _, err := call(c, r.url, body); err == nil {
		t.Error("the listener is still open")
	}
}

func TestRequestInFlightIsFinished(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	inside, goOn := make(chan struct{}), make(chan struct{})
	r := serve(t, p, 0, func(o *Options) {
		o.Rooms.Pod = func(mutate.Request, mutate.Rules) (mutate.Decision, error) {
			close(inside)
			<-goOn
			return mutate.Decision{Outcome: mutate.Skipped}, nil
		}
	})
	c := client(p)
	defer c.CloseIdleConnections()
	answered := make(chan error, 1)
	go func() {
		_, err := call(c, r.url, ask{}.body())
		answered <- err
	}()
	timing.Next(t, time.Minute, "the review has begun", inside)
	r.stop()
	timing.Within(t, time.Minute, "the listener is closed", func() bool {
		conn, err := net.Dial("tcp", r.url[len("https://"):])
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	close(goOn)
	if err := errors.Join(timing.Next(t, 2*time.Minute, "the review is answered", answered), timing.Next(t, time.Minute, "the server ends", r.done)); err != nil {
		t.Error(err)
	}
}
