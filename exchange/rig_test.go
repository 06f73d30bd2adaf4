package exchange_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/delegationtest"
	"github.com/lanyard-k8s/lanyard/exchange"
	"github.com/lanyard-k8s/lanyard/exchange/keys"
	"github.com/lanyard-k8s/lanyard/exchange/settings"
	"github.com/lanyard-k8s/lanyard/exchange/waiting"
	"github.com/lanyard-k8s/lanyard/internal/obs"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The actors.
const (
	issuer    = "https://exchange.example:8443"
	subjectA  = "nemo-platform"
	issuedA   = "nemo-platform-api"
	namespace = "runs"
	account   = "runner"
	username  = "system:serviceaccount:runs:runner"
	node      = "node-1"
	podUID    = "11111111-2222-3333-4444-555555555555"
	submitter = "alice@example.com"
	marker    = "MARKEDTOKEN" // stands in every token that a test sends, and nowhere in what is written
)

// api is the API server's answer to a review.
type api struct {
	calls atomic.Int64
	say   atomic.Pointer[func(ctx context.Context, token string, audiences []string) (authenticationv1.TokenReviewStatus, error)]
}

func (a *api) Review(ctx context.Context, token string, audiences []string) (authenticationv1.TokenReviewStatus, error) {
	a.calls.Add(1)
	if say := a.say.Load(); say != nil {
		return (*say)(ctx, token, audiences)
	}
	return yes(podUID), nil
}

func (a *api) says(f func(ctx context.Context, token string, audiences []string) (authenticationv1.TokenReviewStatus, error)) {
	a.say.Store(&f)
}

// answers lets the API server say one thing.
func (a *api) answers(s authenticationv1.TokenReviewStatus, err error) {
	a.says(func(context.Context, string, []string) (authenticationv1.TokenReviewStatus, error) { return s, err })
}

// yes is what an API server says about the token of a pod.
func yes(uid string) authenticationv1.TokenReviewStatus {
	return authenticationv1.TokenReviewStatus{
		Authenticated: true, Audiences: []string{subjectA},
		User: authenticationv1.UserInfo{
			Username: username, UID: "account-uid", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
			Extra: map[string]authenticationv1.ExtraValue{
				"authentication.kubernetes.io/pod-name": {"job-x"}, "authentication.kubernetes.io/pod-uid": {uid},
				"authentication.kubernetes.io/node-name": {node}, "authentication.kubernetes.io/credential-id": {"JTI=abc"},
			},
		},
	}
}

// subject is a token that has the shape of a projected one. Each nonce makes another.
func subject(nonce string, audience string, expiry time.Time) string {
	return subjectOf(podUID, nonce, audience, expiry)
}

// subjectOf is a token that says that it is of a pod.
func subjectOf(pod, nonce, audience string, expiry time.Time) string {
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err) // maps of strings
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	return part(map[string]string{"alg": "RS256"}) + "." + part(map[string]any{
		"aud": []string{audience}, "exp": expiry.Unix(), "sub": username, "nonce": nonce, "marker": marker,
		"kubernetes.io": map[string]any{"pod": map[string]string{"uid": pod}},
	}) + "." + base64.RawURLEncoding.EncodeToString([]byte(marker+nonce))
}

// rig is a desk behind real HTTP, with everything that it asks.
type rig struct {
	t       testing.TB
	api     *api
	store   *delegationtest.Memory
	reader  *reader
	room    *waiting.Room
	keeper  *keys.Keeper
	shelf   *keys.Directory
	reg     *prometheus.Registry
	metrics *exchange.Metrics
	desk    *exchange.Desk
	server  *httptest.Server
	log     *buffer
	skew    atomic.Int64
	config  settings.Settings
}

// reader is the store as the desk sees it; fail stands in front of it.
type reader struct {
	delegation.Reader
	fail  atomic.Pointer[error]
	reads atomic.Int64
}

func (r *reader) Get(ctx context.Context, name string) (delegation.Standing, error) {
	r.reads.Add(1)
	if err := r.fail.Load(); err != nil && *err != nil {
		return delegation.Standing{}, *err
	}
	return r.Reader.Get(ctx, name)
}

func (r *reader) fails(err error) { r.fail.Store(&err) }

// buffer is a log that may be written by several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// lines are the audit lines.
func (b *buffer) lines(message string) []map[string]any {
	var out []map[string]any
	for line := range strings.SplitSeq(b.String(), "\n") {
		var v map[string]any
		if json.Unmarshal([]byte(line), &v) == nil && v["message"] == message {
			out = append(out, v)
		}
	}
	return out
}

// parse reads settings that have no fault.
func parse(t testing.TB, more string) settings.Settings {
	t.Helper()
	if !strings.Contains(more, "issuer: http") || strings.Contains(more, "login") {
		more += "\nissuer: " + issuer
	}
	text := "store: {directory: /store}\n" + more
	if !strings.Contains(more, "keys:") {
		text += "\nkeys: {directory: /keys}"
	}
	s, err := settings.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newRig makes a rig with settings added to the default ones; "hold" makes requests wait.
func newRig(t testing.TB, more string) *rig {
	t.Helper()
	if !strings.Contains(more, "limits:") {
		more += "\nlimits: {holdMilliseconds: 0}"
	}
	r := &rig{t: t, api: &api{}, store: &delegationtest.Memory{}, log: &buffer{}, reg: prometheus.NewRegistry(), config: parse(t, more)}
	r.reader = &reader{Reader: r.store}
	log, err := obs.NewLogger(r.log, "debug")
	must(t, err)
	r.metrics, err = exchange.NewMetrics(r.reg)
	must(t, err)
	r.shelf, err = keys.NewDirectory(t.TempDir() + "/keys")
	must(t, err)
	r.keeper, err = keys.NewKeeper(r.shelf, keys.Options{Alg: r.config.Keys.Alg, Timing: r.config.Keys.Timing, Now: r.now, Log: log})
	must(t, err)
	must(t, r.keeper.Refresh(t.Context()))
	r.room = waiting.New(int(r.config.Limits.HeldPerRow), int(r.config.Limits.Held))
	r.serve(log)
	return r
}

func (r *rig) serve(log logr.Logger) {
	r.t.Helper()
	reviewer, err := tokenreview.NewReviewer(tokenreview.Options{
		Backend: r.api, Audience: subjectA, Recorder: r.metrics, OpenAfter: 1 << 20, QPS: 1 << 20, Burst: 1 << 20, NegativeFor: 1,
		FailedBurst: int(r.config.Review.FailuresBurst), FailedEvery: time.Minute / time.Duration(r.config.Review.FailuresPerMinute),
	})
	must(r.t, err)
	r.desk, err = exchange.NewDesk(exchange.Options{
		Settings: r.config, Reviewer: reviewer, Store: r.reader, Keys: r.keeper, Room: r.room, Metrics: r.metrics, Log: log, Now: r.now,
	})
	must(r.t, err)
	r.server = httptest.NewUnstartedServer(nil)
	r.server.Config = exchange.NewServer(r.desk, nil, r.config.Limits.Hold, log)
	r.server.StartTLS()
	r.t.Cleanup(func() {
		r.server.Close()
		r.desk.Close()
		reviewer.Close()
		r.hidden()
	})
}

// now is the desk's clock, which may be wrong.
func (r *rig) now() time.Time { return time.Now().Add(time.Duration(r.skew.Load())) }

// hidden fails the test if a token was written anywhere.
func (r *rig) hidden() {
	r.t.Helper()
	families, err := r.reg.Gather()
	must(r.t, err)
	var text strings.Builder
	for _, f := range families {
		text.WriteString(f.String())
	}
	text.WriteString(r.log.String())
	for _, secret := range []string{marker, base64.RawURLEncoding.EncodeToString([]byte(marker)), "eyJhbGciOi", "nmp_obo_v1", "PRIVATE KEY"} {
		if strings.Contains(text.String(), secret) {
			r.t.Errorf("%q is in a log or a metric", secret)
		}
	}
}
