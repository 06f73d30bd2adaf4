package tokenreview

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/lanyard-k8s/lanyard/internal/liveness"
)

const audience = "connector.example"

// epoch is when the tests begin.
func epoch() time.Time { return time.Unix(1_800_000_000, 0) }

// backend is a reviewer that says whatever a test wants it to.
type backend struct {
	calls atomic.Int64
	// say answers; nil is a yes for pod-1.
	say func(ctx context.Context, token string) (authenticationv1.TokenReviewStatus, error)
}

func (b *backend) Review(ctx context.Context, token string, _ []string) (authenticationv1.TokenReviewStatus, error) {
	b.calls.Add(1)
	if b.say == nil {
		return yes("pod-1"), nil
	}
	return b.say(ctx, token)
}

// called fails the test unless the backend has been asked exactly so often.
func (b *backend) called(t *testing.T, want int64) {
	t.Helper()
	if got := b.calls.Load(); got != want {
		t.Errorf("%d reviews, want %d", got, want)
	}
}

// yes is what an API server says about a pod's token.
func yes(podUID string) authenticationv1.TokenReviewStatus {
	return authenticationv1.TokenReviewStatus{
		Authenticated: true,
		Audiences:     []string{audience},
		User: authenticationv1.UserInfo{
			Username: "system:serviceaccount:gpu:monitor",
			UID:      "account-1",
			Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:gpu", "system:authenticated"},
			Extra: map[string]authenticationv1.ExtraValue{
				extraPodName: {"monitor-abc"}, extraPodUID: {podUID}, extraNodeName: {"node-1"}, extraNodeUID: {"node-uid-1"},
				extraCredentialID: {"JTI=1"},
			},
		},
	}
}

// no is what an API server says about a token that it does not like.
func no(why string) authenticationv1.TokenReviewStatus {
	return authenticationv1.TokenReviewStatus{Error: why}
}

// minted is what tokenFor makes a token from.
type minted struct {
	aud    any
	exp    any
	podUID string
	mark   string
}

// tokenFor makes a token that looks genuine.
func tokenFor(m minted) string {
	if m.aud == nil {
		m.aud = []string{audience}
	}
	if m.exp == nil {
		m.exp = epoch().Add(time.Hour).Unix()
	}
	if m.podUID == "" {
		m.podUID = "pod-1"
	}
	body := map[string]any{
		"aud": m.aud, "exp": m.exp, "iss": "https://kubernetes.default.svc", "sub": "system:serviceaccount:gpu:monitor",
		"kubernetes.io": map[string]any{
			"namespace": "gpu", "node": map[string]string{"name": "node-1", "uid": "node-uid-1"},
			"pod":            map[string]string{"name": "monitor-abc", "uid": m.podUID},
			"serviceaccount": map[string]string{"name": "monitor", "uid": "account-1"},
		},
	}
	return part(map[string]string{"alg": "RS256", "kid": "k"}) + "." + part(body) + "." +
		base64.RawURLEncoding.EncodeToString([]byte("signature"+m.mark+strings.Repeat("s", 200)))
}

func part(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// pods is a watch that says whatever a test wants it to; its zero value knows nobody.
type pods struct {
	mu    sync.Mutex
	state map[string]liveness.State
	died  func(uid string)
}

func (p *pods) State(uid string, _ time.Time) liveness.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state[uid]
}

func (p *pods) Subscribe(died func(uid string)) (cancel func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.died = died
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.died = nil
	}
}

func (p *pods) set(uid string, s liveness.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == nil {
		p.state = map[string]liveness.State{}
	}
	p.state[uid] = s
}

// living is a watch that knows pod-1.
func living() *pods { return &pods{state: map[string]liveness.State{"pod-1": liveness.Alive}} }

// rig is a Reviewer with all that a test can pull at.
type rig struct {
	*Reviewer
	backend *backend
	pods    *pods
	clock   *clocktesting.FakeClock
}

// newRig makes a Reviewer on fakes. It is closed when the test ends.
func newRig(t testing.TB, change ...func(*Options)) rig {
	t.Helper()
	g := rig{backend: &backend{}, pods: living(), clock: clocktesting.NewFakeClock(epoch())}
	o := Options{Backend: g.backend, Audience: audience, Pods: g.pods, Clock: g.clock}
	for _, c := range change {
		c(&o)
	}
	r, err := NewReviewer(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	g.Reviewer = r
	return g
}

// wants fails the test unless the token is refused for the reason; an empty one wants a verdict.
func (g rig) wants(t *testing.T, token string, want Reason) {
	t.Helper()
	_, err := g.Review(t.Context(), token, nil)
	if got := ReasonOf(err); got != want {
		t.Errorf("reason = %q (%v), want %q", got, err, want)
	}
}
