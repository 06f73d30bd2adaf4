//go:build linux

package exchange

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/sqlite"
	"github.com/lanyard-k8s/lanyard/exchange"
	"github.com/lanyard-k8s/lanyard/exchange/keys"
	"github.com/lanyard-k8s/lanyard/exchange/settings"
	"github.com/lanyard-k8s/lanyard/exchange/waiting"
	"github.com/lanyard-k8s/lanyard/internal/liveness"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// The actors.
const (
	runner    = "runner"
	submitter = "alice@example.com"
	node      = "node-1"
)

// house is a test's own namespace, and a desk in this process over a real database and the real API server.
type house struct {
	*world
	t         *testing.T
	namespace string
	directory string // of the database
	store     *sqlite.Store
	room      *waiting.Room
	server    *httptest.Server
}

func (w *world) house(t *testing.T) *house {
	t.Helper()
	h := &house{world: w, t: t, namespace: w.Namespace(t, "runs-", runner), room: waiting.New(waiting.DefaultPerRow, waiting.DefaultTotal)}
	dir := t.TempDir() + "/store"
	h.directory = dir
	must(t, sqlite.Migrate(t.Context(), dir))
	var err error
	h.store, err = sqlite.Open(t.Context(), dir)
	must(t, err)
	t.Cleanup(func() { _ = h.store.Close() })
	return h
}

// wrong is a clock that is off.
type wrong struct {
	clock.RealClock
	by time.Duration
}

// Now is what the clock says.
func (w wrong) Now() time.Time { return w.RealClock.Now().Add(w.by) }

// open opens the desk.
func (h *house) open() { h.openAt(0) }

// openAt opens the desk of an exchange whose clock is off by so much.
func (h *house) openAt(by time.Duration) {
	h.t.Helper()
	at := wrong{by: by}
	cfg, err := settings.Parse([]byte("issuer: https://exchange.example\nkeys: {directory: /x}\nstore: {directory: /x}\nlimits: {holdMilliseconds: 2000}"))
	must(h.t, err)
	rest, err := clientcmd.BuildConfigFromFlags("", h.kubeconfig)
	must(h.t, err)
	backend, err := tokenreview.NewAPIServer(rest)
	must(h.t, err)
	meta, err := metadata.NewForConfig(rest)
	must(h.t, err)
	pods, err := liveness.NewLabelledPods(meta, liveness.Options{})
	must(h.t, err)
	reviewer, err := tokenreview.NewReviewer(tokenreview.Options{Backend: backend, Audience: wire.DefaultJobAudience, Pods: pods, Clock: at})
	must(h.t, err)
	shelf, err := keys.NewDirectory(h.t.TempDir() + "/keys")
	must(h.t, err)
	keeper, err := keys.NewKeeper(shelf, keys.Options{Alg: cfg.Keys.Alg, Timing: cfg.Keys.Timing, Now: at.Now})
	must(h.t, err)
	must(h.t, keeper.Refresh(h.t.Context()))
	metrics, err := exchange.NewMetrics(prometheus.NewRegistry())
	must(h.t, err)
	desk, err := exchange.NewDesk(exchange.Options{
		Settings: cfg, Reviewer: reviewer, Store: h.store, Keys: keeper, Room: h.room, Metrics: metrics, Log: logr.Discard(), Now: at.Now,
	})
	must(h.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.t.Context()))
	watching := make(chan error, 1)
	go func() { watching <- pods.Run(ctx) }()
	timing.Within(h.t, 2*time.Minute, "the watch of pods is synced", func() bool { return pods.Trusted(time.Now()) })
	h.server = httptest.NewTLSServer(desk)
	h.t.Cleanup(func() {
		h.server.Close()
		desk.Close()
		reviewer.Close()
		cancel()
		<-watching
	})
}

func (h *house) username() string { return "system:serviceaccount:" + h.namespace + ":" + runner }

// pod makes a pod of the runner on the node, with the label of injected pods.
func (h *house) pod(name string) *corev1.Pod {
	h.t.Helper()
	pod, err := h.Admin.CoreV1().Pods(h.namespace).Create(h.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{wire.LabelInjected: "job"}},
		Spec:       corev1.PodSpec{NodeName: node, ServiceAccountName: runner, Containers: []corev1.Container{{Name: "main", Image: "example.com/train:1"}}},
	}, metav1.CreateOptions{})
	must(h.t, err)
	return pod
}

// tokenOf requests the subject token of a pod, as its kubelet does; the API server's picture of which pod is on which node may be late.
func tokenOf(t *testing.T, kubelet kubernetes.Interface, namespace string, pod *corev1.Pod) string {
	t.Helper()
	var got string
	timing.Within(t, 2*time.Minute, "the kubelet gets a token", func() bool {
		var err error
		got, err = request(t, kubelet, namespace, pod.Spec.ServiceAccountName, pod, wire.DefaultJobAudience)
		return err == nil
	})
	return got
}

// token requests a token of an account of a namespace for a pod; nil is for none.
func (w *world) token(t *testing.T, namespace, account string, pod *corev1.Pod, audience string) string {
	t.Helper()
	got, err := request(t, w.Admin, namespace, account, pod, audience)
	must(t, err)
	return got
}

func request(t *testing.T, client kubernetes.Interface, namespace, account string, pod *corev1.Pod, audience string) (string, error) {
	t.Helper()
	return requestFor(t, client, namespace, account, pod, audience, nil)
}

func requestFor(t *testing.T, client kubernetes.Interface, namespace, account string, pod *corev1.Pod, audience string, seconds *int64) (string, error) {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}, ExpirationSeconds: seconds}}
	if audience == "" {
		request.Spec.Audiences = nil // the API server's own
	}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return answer.Status.Token, nil
}

// subject is a pod's subject token.
func (h *house) subject(pod *corev1.Pod) string {
	return h.token(h.t, h.namespace, runner, pod, wire.DefaultJobAudience)
}

func (h *house) row(pod *corev1.Pod) string {
	return delegation.PodName(wire.DefaultWorkloadAudience, h.username(), string(pod.UID))
}

// delegated writes the pod's row, as whoever judges pods would.
func (h *house) delegated(pod *corev1.Pod) {
	h.t.Helper()
	s := delegation.Submission{
		UID: "job-of-" + string(pod.UID), GroupKind: "batch/Job", Namespace: h.namespace, Name: "train", Submitter: submitter,
		Audiences: []string{wire.DefaultWorkloadAudience}, Scopes: []string{"openid"}, State: delegation.Confirmed, ConfirmedAt: time.Now(),
	}
	_, err := h.store.Confirm(h.t.Context(), s)
	must(h.t, err)
	_, err = h.store.Put(h.t.Context(), delegation.Row{
		Name: h.row(pod), Kind: delegation.Pod, SubmissionUID: s.UID, Bound: delegation.Reference{Name: delegation.ReferencePodUID, Value: string(pod.UID)},
		Namespace: h.namespace, ServiceAccount: runner, NodeName: node, State: delegation.Active, CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour),
	})
	must(h.t, err)
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   map[string]any
}

func (a answer) token() string {
	s, _ := a.body["access_token"].(string)
	return s
}

// exchange posts a subject token.
func (h *house) exchange(token string) answer {
	h.t.Helper()
	return post(h.t, h.server.Client(), h.server.URL+wire.PathToken, wire.DefaultJobAudience, token)
}

func post(t *testing.T, client *http.Client, endpoint, clientID, token string) answer {
	t.Helper()
	form := url.Values{
		"grant_type": {wire.GrantTypeTokenExchange}, "client_id": {clientID}, "subject_token_type": {wire.TokenTypeJWT}, "subject_token": {token},
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	must(t, err)
	req.Header.Set("Content-Type", wire.FormType)
	return send(t, client, req)
}

func send(t *testing.T, client *http.Client, req *http.Request) answer {
	t.Helper()
	resp, err := client.Do(req)
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	must(t, err)
	a := answer{status: resp.StatusCode, header: resp.Header}
	if len(raw) > 0 {
		must(t, json.Unmarshal(raw, &a.body))
	}
	return a
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
