//go:build unix

package gateway

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/go-logr/logr"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/certs"
	"github.com/lanyard-k8s/lanyard/client"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/delegationtest"
	"github.com/lanyard-k8s/lanyard/exchange"
	"github.com/lanyard-k8s/lanyard/exchange/keys"
	"github.com/lanyard-k8s/lanyard/exchange/settings"
	"github.com/lanyard-k8s/lanyard/exchange/waiting"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	issuer    = "https://lanyard.example/apis/auth"
	runner    = "system:serviceaccount:runs:runner"
	podUID    = "11111111-2222-3333-4444-555555555555"
	submitter = "alice@example.com"
	nodeName  = "node-1"
	// serverName is in the exchange's certificate.
	serverName = "lanyard-exchange.lanyard.svc"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// cluster is the API server, which knows one pod's token.
type cluster struct{}

// Review says whose the token is.
func (cluster) Review(context.Context, string, []string) (authenticationv1.TokenReviewStatus, error) {
	return authenticationv1.TokenReviewStatus{
		Authenticated: true, Audiences: []string{wire.DefaultJobAudience},
		User: authenticationv1.UserInfo{Username: runner, UID: "account-uid", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:runs", "system:authenticated"}, Extra: map[string]authenticationv1.ExtraValue{
			"authentication.kubernetes.io/pod-name": {"job-x"}, "authentication.kubernetes.io/pod-uid": {podUID}, "authentication.kubernetes.io/node-name": {nodeName},
		}},
	}, nil
}

// store can be taken away.
type store struct {
	*delegationtest.Memory
	down atomic.Bool
}

// Get reads a row.
func (s *store) Get(ctx context.Context, name string) (delegation.Standing, error) {
	if s.down.Load() {
		return delegation.Standing{}, delegation.ErrUnavailable
	}
	return s.Memory.Get(ctx, name)
}

// platform is a real exchange behind TLS, with a job's row; and a stand-in for what may go wrong with it.
type platform struct {
	address string // host:port
	dir     string // ca.crt, tls.crt, tls.key
	store   *store
	row     string
	instead atomic.Pointer[http.HandlerFunc] // answers in place of the exchange

	mu    sync.Mutex
	asked []*http.Request // the callouts
}

func newPlatform(t *testing.T) *platform {
	t.Helper()
	pair, err := certs.SelfSigned(time.Now(), serverName, "127.0.0.1")
	must(t, err)
	p := &platform{dir: t.TempDir(), store: &store{Memory: &delegationtest.Memory{}}}
	must(t, pair.Write(p.dir))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	p.address = l.Addr().String()
	desk := p.desk(t)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == wire.PathAuthenticate {
			p.mu.Lock()
			p.asked = append(p.asked, r.Clone(context.Background()))
			p.mu.Unlock()
			if h := p.instead.Load(); h != nil {
				(*h)(w, r)
				return
			}
		}
		desk.ServeHTTP(w, r)
	}))
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	must(t, err)
	_ = s.Listener.Close()
	s.Listener, s.TLS = l, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	p.delegate(t)
	return p
}

func (p *platform) desk(t *testing.T) *exchange.Desk {
	t.Helper()
	s, err := settings.Parse(fmt.Appendf(nil, "issuer: %s\nbaseURL: https://%s\nstore: {directory: /store}\nkeys: {directory: /keys}\nlimits: {holdMilliseconds: 0}\n", issuer, p.address))
	must(t, err)
	metrics, err := exchange.NewMetrics(prometheus.NewRegistry())
	must(t, err)
	shelf, err := keys.NewDirectory(filepath.Join(t.TempDir(), "keys"))
	must(t, err)
	keeper, err := keys.NewKeeper(shelf, keys.Options{Alg: s.Keys.Alg, Timing: s.Keys.Timing, Now: time.Now, Log: logr.Discard()})
	must(t, err)
	must(t, keeper.Refresh(t.Context()))
	reviewer, err := tokenreview.NewReviewer(tokenreview.Options{Backend: cluster{}, Audience: wire.DefaultJobAudience, Recorder: metrics})
	must(t, err)
	d, err := exchange.NewDesk(exchange.Options{
		Settings: s, Reviewer: reviewer, Store: p.store, Keys: keeper, Room: waiting.New(2, 256), Metrics: metrics, Log: logr.Discard(),
	})
	must(t, err)
	t.Cleanup(func() { d.Close(); reviewer.Close() })
	return d
}

// delegate writes the job's row.
func (p *platform) delegate(t *testing.T) {
	t.Helper()
	p.row = delegation.PodName(wire.DefaultWorkloadAudience, runner, podUID)
	_, err := p.store.Confirm(t.Context(), delegation.Submission{
		UID: "job-uid", GroupKind: "batch/Job", Namespace: "runs", Name: "train", Submitter: submitter, Audiences: []string{wire.DefaultWorkloadAudience},
		Scopes: []string{"openid"}, State: delegation.Confirmed, ConfirmedAt: time.Now(),
	})
	must(t, err)
	_, err = p.store.Put(t.Context(), delegation.Row{
		Name: p.row, Kind: delegation.Pod, SubmissionUID: "job-uid", Bound: delegation.Reference{Name: delegation.ReferencePodUID, Value: podUID},
		Namespace: "runs", ServiceAccount: "runner", NodeName: nodeName, State: delegation.Active, CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour),
	})
	must(t, err)
}

// workload is the job's identity, by the environment that the webhook sets up.
func (p *platform) workload(t *testing.T) *client.Workload {
	t.Helper()
	part := func(v any) string {
		b, err := json.Marshal(v)
		must(t, err)
		return base64.RawURLEncoding.EncodeToString(b)
	}
	token := part(map[string]string{"alg": "RS256"}) + "." + part(map[string]any{
		"aud": []string{wire.DefaultJobAudience}, "exp": time.Now().Add(time.Hour).Unix(), "sub": runner, "kubernetes.io": map[string]any{"pod": map[string]string{"uid": podUID}},
	}) + "." + part("signature")
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte(token), 0o600))
	env := map[string]string{wire.EnvSubjectTokenFile: file, wire.EnvBaseURL: "https://" + p.address, wire.EnvCAFile: filepath.Join(p.dir, certs.CAFile)}
	o, err := client.EnvOptions(func(name string) string { return env[name] })
	must(t, err)
	w, err := client.NewWorkload(o)
	must(t, err)
	t.Cleanup(w.Close)
	return w
}

// token is an access token for the job.
func (p *platform) token(t *testing.T) string {
	t.Helper()
	got, err := p.workload(t).TokenContext(t.Context())
	must(t, err)
	return got.AccessToken
}

// answers lets something else answer the gateway.
func (p *platform) answers(h http.HandlerFunc) { p.instead.Store(&h) }

// callouts are what the gateway has asked.
func (p *platform) callouts() []*http.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*http.Request{}, p.asked...)
}
