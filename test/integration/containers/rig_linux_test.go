package containers

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/certs"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/sqlite"
	"github.com/lanyard-k8s/lanyard/dockerjob"
	"github.com/lanyard-k8s/lanyard/exchange"
	"github.com/lanyard-k8s/lanyard/exchange/keys"
	"github.com/lanyard-k8s/lanyard/exchange/settings"
	"github.com/lanyard-k8s/lanyard/exchange/waiting"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
	"github.com/lanyard-k8s/lanyard/test/docker"
)

const (
	issuer = "https://lanyard.example/apis/auth"
	host   = "exchange.lanyard.internal"
	alice  = "unix:test:alice"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// nobody is the API server of a machine that has none.
type nobody struct{ asked atomic.Int64 }

func (n *nobody) Review(context.Context, string, []string) (authenticationv1.TokenReviewStatus, error) {
	n.asked.Add(1)
	return authenticationv1.TokenReviewStatus{}, nil
}

// counted is the store as the exchange sees it.
type counted struct {
	delegation.Reader
	reads atomic.Int64
}

func (c *counted) Get(ctx context.Context, name string) (delegation.Standing, error) {
	c.reads.Add(1)
	return c.Reader.Get(ctx, name)
}

// house is an Engine, an exchange on its bridge, and a backend.
type house struct {
	t       *testing.T
	engine  *docker.Engine
	backend *dockerjob.Backend
	rows    *counted
	api     *nobody
	address string // the exchange's, on the bridge
}

func newHouse(t *testing.T) *house {
	t.Helper()
	e := docker.ForTest(t, docker.Options{})
	dir := filepath.Join(t.TempDir(), "db")
	must(t, sqlite.Migrate(t.Context(), dir))
	store, err := sqlite.Open(t.Context(), dir)
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	h := &house{t: t, engine: e, rows: &counted{Reader: store}, api: &nobody{}}
	ca := h.serve()
	h.run(store, ca)
	return h
}

// serve puts an exchange on the bridge's gateway, and returns the CA.
func (h *house) serve() []byte {
	t := h.t
	pair, err := certs.SelfSigned(time.Now(), host)
	must(t, err)
	l, err := h.engine.Listen(t.Context(), net.JoinHostPort(h.engine.Gateway().String(), "0"))
	must(t, err)
	h.address = l.Addr().String()
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	must(t, err)
	server := &http.Server{Handler: h.desk(), ReadHeaderTimeout: time.Minute, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.ServeTLS(l, "", "")
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return pair.CA
}

func (h *house) base() string {
	_, port, _ := net.SplitHostPort(h.address)
	return "https://" + net.JoinHostPort(host, port)
}

func (h *house) desk() *exchange.Desk {
	t := h.t
	s, err := settings.Parse(fmt.Appendf(nil, "issuer: %s\nbaseURL: %s\nstore: {directory: /store}\nkeys: {directory: /keys}\nlimits: {holdMilliseconds: 0}\n", issuer, h.base()))
	must(t, err)
	metrics, err := exchange.NewMetrics(prometheus.NewRegistry())
	must(t, err)
	shelf, err := keys.NewDirectory(filepath.Join(t.TempDir(), "keys"))
	must(t, err)
	keeper, err := keys.NewKeeper(shelf, keys.Options{Alg: s.Keys.Alg, Timing: s.Keys.Timing, Now: time.Now, Log: logr.Discard()})
	must(t, err)
	must(t, keeper.Refresh(t.Context()))
	reviewer, err := tokenreview.NewReviewer(tokenreview.Options{Backend: h.api, Audience: wire.DefaultJobAudience, Recorder: metrics})
	must(t, err)
	d, err := exchange.NewDesk(exchange.Options{
		Settings: s, Reviewer: reviewer, Store: h.rows, Keys: keeper, Room: waiting.New(2, 256), Metrics: metrics, Log: logr.Discard(),
	})
	must(t, err)
	t.Cleanup(func() { d.Close(); reviewer.Close() })
	return d
}

// run runs a backend.
func (h *house) run(store delegation.Store, ca []byte) {
	t := h.t
	engine, err := dockerjob.NewEngine(h.engine.Host())
	must(t, err)
	metrics, err := dockerjob.NewMetrics(prometheus.NewRegistry())
	must(t, err)
	h.backend, err = dockerjob.New(dockerjob.Options{
		Engine: engine, Store: store, Metrics: metrics, Log: funcr.New(func(_, args string) { t.Log(args) }, funcr.Options{}),
		Settings: dockerjob.Settings{
			Instance: "test", Cluster: "test", BaseURL: h.base(), CA: func() []byte { return ca }, Audiences: []string{wire.DefaultWorkloadAudience}, Scopes: []string{"openid"}, Timeout: 2 * time.Minute,
		},
	})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.backend.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = engine.Close()
	})
	h.eventually("the backend is ready", func() bool { return h.backend.Ready() == nil })
}

func (h *house) eventually(what string, ok func() bool) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); !ok(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			h.t.Fatalf("it never came about that %s", what)
		}
	}
}

// submit starts a job of alice's.
func (h *house) submit(name string, command ...string) dockerjob.Job {
	h.t.Helper()
	j, err := h.backend.Submit(h.t.Context(), alice, dockerjob.Spec{Workspace: "default", Job: name, Task: "main", Image: docker.ProbeImage, Command: command})
	must(h.t, err)
	return j
}

// said is a job's output, once it has ended.
func (h *house) said(j dockerjob.Job) string {
	h.t.Helper()
	var out bytes.Buffer
	must(h.t, h.backend.Logs(h.t.Context(), alice, j.ID, dockerjob.LogOptions{Follow: true}, &out, &out))
	return out.String()
}

// claims are what an access token says.
type claims struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Audience string `json:"aud"`
	Actor    struct {
		Subject string `json:"sub"`
	} `json:"act"`
}

func parse(t *testing.T, s string) claims {
	t.Helper()
	var c claims
	if err := json.Unmarshal([]byte(strings.TrimSpace(s)), &c); err != nil {
		t.Fatalf("no claims: %q", s)
	}
	return c
}

// post sends a proof to the exchange, as a client on the bridge would, and returns status and error code.
func (h *house) post(token, kind string) (int, string) {
	h.t.Helper()
	transport := &http.Transport{
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return h.engine.Dial(ctx, h.address) },
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // what is verified is what the container does
	}
	defer transport.CloseIdleConnections()
	form := url.Values{"grant_type": {wire.GrantTypeTokenExchange}, "client_id": {wire.DefaultJobAudience}, "subject_token_type": {kind}, "subject_token": {token}}
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.base()+"/apis/auth/token", strings.NewReader(form.Encode()))
	must(h.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := (&http.Client{Transport: transport}).Do(req)
	must(h.t, err)
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	must(h.t, err)
	var said struct {
		Error string `json:"error"`
	}
	must(h.t, json.Unmarshal(b, &said))
	return answer.StatusCode, said.Error
}
