package connector

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	authenticationv1 "k8s.io/api/authentication/v1"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/certs"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
	"github.com/lanyard-k8s/lanyard/internal/obs"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// The actors of the tests.
const (
	audience = "connector.example"
	own      = "node-a"
	foreign  = "node-b"
	ownUID   = "uid-of-node-a"
	monitor  = "system:serviceaccount:gpu:monitor"
	listed   = "system:serviceaccount:nvsentinel:csp-health-monitor"
)

// identity is what a reviewer says of a token.
type identity struct{ user, pod, node, nodeUID string }

// reviewer is a backend that says what a test wants it to.
type reviewer struct {
	mu    sync.Mutex
	calls atomic.Int64
	known map[string]func(context.Context) (authenticationv1.TokenReviewStatus, error)
}

func (r *reviewer) Review(ctx context.Context, token string, _ []string) (authenticationv1.TokenReviewStatus, error) {
	r.calls.Add(1)
	r.mu.Lock()
	say := r.known[token]
	r.mu.Unlock()
	if say == nil {
		return authenticationv1.TokenReviewStatus{Error: "invalid bearer token"}, nil
	}
	return say(ctx)
}

// says mints a token about which the backend says something.
func (r *reviewer) says(say func(context.Context) (authenticationv1.TokenReviewStatus, error)) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[string]func(context.Context) (authenticationv1.TokenReviewStatus, error){}
	}
	token := minted(len(r.known))
	r.known[token] = say
	return token
}

// of mints the token of an identity.
func (r *reviewer) of(id identity) string { return r.status(accepted(id)) }

// status mints a token that is answered with a status.
func (r *reviewer) status(s authenticationv1.TokenReviewStatus) string {
	return r.says(func(context.Context) (authenticationv1.TokenReviewStatus, error) { return s, nil })
}

// fails mints a token whose review brings no answer.
func (r *reviewer) fails(err error) string {
	return r.says(func(context.Context) (authenticationv1.TokenReviewStatus, error) {
		return authenticationv1.TokenReviewStatus{}, err
	})
}

// minted makes a word that could be a token of ours.
func minted(n int) string {
	encode := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	body := map[string]any{"aud": []string{audience}, "exp": time.Now().Add(time.Hour).Unix(), "n": n}
	return encode(map[string]string{"alg": "RS256"}) + "." + encode(body) + "." + base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte("s"), 258))
}

// accepted is an API server's yes.
func accepted(id identity) authenticationv1.TokenReviewStatus {
	s := authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: []string{audience}, User: authenticationv1.UserInfo{
		Username: id.user, UID: "uid-of-account", Groups: []string{"system:serviceaccounts"}, Extra: map[string]authenticationv1.ExtraValue{},
	}}
	for key, value := range map[string]string{"pod-uid": id.pod, "node-name": id.node, "node-uid": id.nodeUID} {
		if value != "" {
			s.User.Extra["authentication.kubernetes.io/"+key] = []string{value}
		}
	}
	return s
}

// kept is an Intake that remembers.
type remembering struct {
	mu      sync.Mutex
	batches []sink.Batch
	err     error
	hold    chan struct{}
	waiting atomic.Int64 // calls of Append
}

func (r *remembering) Append(ctx context.Context, b sink.Batch) error {
	r.waiting.Add(1)
	if r.hold != nil {
		select {
		case <-r.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	r.batches = append(r.batches, b)
	return nil
}

func (r *remembering) all() []sink.Batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]sink.Batch(nil), r.batches...)
}

// fixedNodes knows the UIDs of live nodes.
type fixedNodes map[string]string

func (fixedNodes) Trusted(time.Time) bool   { return true }
func (f fixedNodes) UID(name string) string { return f[name] }

// setup is what a test may change of a connector.
type setup struct {
	Options
	review tokenreview.Options
	limits Limits
	group  int
}

// rig is a running connector, a client on it and what it left behind.
type rig struct {
	setup
	backend  *reviewer
	reviews  *tokenreview.Reviewer
	intake   *remembering
	registry *prometheus.Registry
	logs     *safeBuffer
	server   *Server
	socket   string // path
	address  string
	roots    *x509.CertPool
	conn     *grpc.ClientConn
	client   healtheventv1.PlatformConnectorClient
	stop     func()
}

// safeBuffer is a log that can be read while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// start runs a connector of a role, over a real Unix socket or real TLS.
func start(t testing.TB, role nodebinding.Role, changes ...func(*setup)) *rig {
	t.Helper()
	g := &rig{backend: &reviewer{}, intake: &remembering{}, registry: prometheus.NewRegistry(), logs: &safeBuffer{}}
	log, err := obs.NewLogger(g.logs, "debug")
	must(t, err)
	metrics, err := NewMetrics(g.registry)
	must(t, err)
	g.setup = setup{
		Options: Options{
			Rules: nodebinding.Rules{Role: role, CrossNode: nodebinding.NewAccounts(listed)}, Mode: nodebinding.Enforce,
			Nodes: fixedNodes{own: ownUID}, Intake: g.intake, Timeout: 4 * time.Second, Metrics: metrics, Recent: NewRecent(), Log: log,
		},
		review: tokenreview.Options{Backend: g.backend, Audience: audience, Recorder: metrics, QPS: 1e6, Burst: 1e6},
		limits: Limits{MessageBytes: 4 << 20, HeaderBytes: 16 << 10, Streams: 128, Connections: 256, Request: 4 * time.Second, InFlight: 512 << 20},
		group:  -1,
	}
	if role == nodebinding.Socket {
		g.Rules.OwnNode = own
	}
	for _, change := range changes {
		change(&g.setup)
	}
	g.reviews, err = tokenreview.NewReviewer(g.review)
	must(t, err)
	t.Cleanup(g.reviews.Close)
	if g.Reviewer == nil {
		g.Reviewer = g.reviews
	}
	g.run(t, role)
	g.conn = g.dial(t)
	g.client = healtheventv1.NewPlatformConnectorClient(g.conn)
	return g
}

func (g *rig) run(t testing.TB, role nodebinding.Role) {
	t.Helper()
	desk, err := NewDesk(g.Options)
	must(t, err)
	o := ServerOptions{Desk: desk, Limits: g.limits, NewBucket: g.reviews.NewBucket, Drain: 2 * time.Second, Metrics: g.Metrics, Log: g.Log}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	if role == nodebinding.Socket {
		g.server, err = NewServer(o)
		must(t, err)
		g.socket = filepath.Join(t.TempDir(), "s.sock")
		u, err := NewUnixSocket(g.socket, 0, g.group)
		must(t, err)
		t.Cleanup(func() { _ = u.Close() })
		g.server.UseSocket(u)
		go func() { done <- g.server.RunSocket(ctx) }()
		eventually(t, "the socket appears", func() bool { return g.server.Check() == nil })
	} else {
		pair, err := certs.SelfSigned(time.Now(), "127.0.0.1")
		must(t, err)
		dir := t.TempDir()
		must(t, pair.Write(dir))
		reloader, err := certs.NewReloader(dir, certs.Options{Log: g.Log})
		must(t, err)
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: reloader.GetCertificate}
		g.server, err = NewServer(o)
		must(t, err)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		g.address, g.roots = l.Addr().String(), x509.NewCertPool()
		if !g.roots.AppendCertsFromPEM(pair.CA) {
			t.Fatal("no CA")
		}
		go func() { done <- g.server.RunTCP(ctx, l) }()
	}
	g.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("serving ended: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("serving does not end with its context")
		}
	})
	t.Cleanup(g.stop)
}

// dial makes a connection of its own.
func (g *rig) dial(t testing.TB, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	target, secure := "unix://"+g.socket, insecure.NewCredentials()
	if g.socket == "" {
		target, secure = g.address, credentials.NewTLS(&tls.Config{RootCAs: g.roots, MinVersion: tls.VersionTLS12})
	}
	conn, err := grpc.NewClient(target, append([]grpc.DialOption{grpc.WithTransportCredentials(secure)}, options...)...)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// call sends a batch with these values of the authorization metadata.
func (g *rig) call(t testing.TB, authorization []string, names ...string) error {
	t.Helper()
	return g.send(t, authorization, batchOf(names...))
}

func (g *rig) send(t testing.TB, authorization []string, batch *healtheventv1.HealthEvents, pairs ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for _, value := range authorization {
		pairs = append(pairs, keyAuthorization, value)
	}
	if g.Rules.Role == nodebinding.Deployment && len(pairs) == 2*len(authorization) {
		pairs = append(pairs, keyIdempotency, "key-1")
	}
	_, err := g.client.HealthEventOccurredV1(metadata.AppendToOutgoingContext(ctx, pairs...), batch)
	return err
}

func bearer(token string) []string { return []string{"Bearer " + token} }

// batchOf makes events about these nodes.
func batchOf(names ...string) *healtheventv1.HealthEvents {
	b := &healtheventv1.HealthEvents{Version: 1}
	for _, n := range names {
		b.Events = append(b.Events, &healtheventv1.HealthEvent{Version: 1, CheckName: "GpuXidError", NodeName: n, IsFatal: true})
	}
	return b
}

// kept are the node names of everything that was handed on.
func (g *rig) kept() []string {
	var names []string
	for _, b := range g.intake.all() {
		for _, e := range b.Events {
			names = append(names, e.GetNodeName())
		}
	}
	return names
}

// counts are the non-zero samples of a family, by the value of its one label.
func (g *rig) counts(t testing.TB, name string) map[string]float64 {
	t.Helper()
	families, err := g.registry.Gather()
	must(t, err)
	out := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if v := m.GetCounter().GetValue() + m.GetGauge().GetValue(); v != 0 {
				var labels []string
				for _, l := range m.GetLabel() {
					labels = append(labels, l.GetValue())
				}
				out[strings.Join(labels, ",")] = v
			}
		}
	}
	return out
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually polls for what happens in the background.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("never: %s", what)
		}
	}
}

var errReset = errors.New("connection reset by peer")

// incoming is the context of a call as the server sees it.
func incoming(ctx context.Context, authorization []string) context.Context {
	return metadata.NewIncomingContext(ctx, metadata.MD{keyAuthorization: authorization})
}
