//go:build unix

package tokens

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/internal/liveness"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// reviewerUser is whom the reviews are made as, with the one right that they need.
const reviewerUser = "system:serviceaccount:lanyard:connector"

// counted is a Backend that counts.
type counted struct {
	tokenreview.Backend
	calls atomic.Int64
}

func (c *counted) Review(ctx context.Context, token string, audiences []string) (authenticationv1.TokenReviewStatus, error) {
	c.calls.Add(1)
	return c.Backend.Review(ctx, token, audiences)
}

// backend asks the API server as a user.
func (w *world) backend(t *testing.T, user string) *counted {
	t.Helper()
	config, err := w.ConfigFor(user)
	must(t, err)
	b, err := tokenreview.NewAPIServer(config)
	must(t, err)
	return &counted{Backend: b}
}

// reviewer makes a Reviewer that lives as long as the test.
func reviewer(t *testing.T, b tokenreview.Backend, change ...func(*tokenreview.Options)) *tokenreview.Reviewer {
	t.Helper()
	o := tokenreview.Options{Backend: b, Audience: audience}
	for _, c := range change {
		c(&o)
	}
	r, err := tokenreview.NewReviewer(o)
	must(t, err)
	t.Cleanup(r.Close)
	return r
}

// watching starts a watch that ends with the test, and waits until it is trusted.
func watching(t *testing.T, w interface {
	Run(context.Context) error
	Trusted(time.Time) bool
}) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	timing.Within(t, 2*time.Minute, "the watch is trusted", func() bool { return w.Trusted(time.Now()) })
}

// home is a test's own namespace, with an account and a node.
type home struct {
	*world
	t         *testing.T
	namespace string
	node      *corev1.Node
}

func (w *world) home(t *testing.T) *home {
	t.Helper()
	h := &home{world: w, t: t, namespace: w.Namespace(t, "tokens-", "monitor")}
	h.node = h.newNode(h.namespace + "-node")
	return h
}

func (h *home) account(name string) {
	h.t.Helper()
	_, err := h.Admin.CoreV1().ServiceAccounts(h.namespace).Create(h.t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}, metav1.CreateOptions{})
	must(h.t, err)
}

func (h *home) newNode(name string) *corev1.Node {
	h.t.Helper()
	node, err := h.Admin.CoreV1().Nodes().Create(h.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(h.t, err)
	return node
}

// pod makes a pod on a node, or on none, with the label of injected pods.
func (h *home) pod(name, node string) *corev1.Pod {
	h.t.Helper()
	pod, err := h.Admin.CoreV1().Pods(h.namespace).Create(h.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{wire.LabelInjected: "publisher"}},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: "monitor",
			Containers: []corev1.Container{{Name: "main", Image: "example.com/monitor:1"}},
		},
	}, metav1.CreateOptions{})
	must(h.t, err)
	return pod
}

// remove deletes a pod; a grace period leaves the object, as no kubelet ends it.
func (h *home) remove(pod *corev1.Pod, grace int64) {
	h.t.Helper()
	must(h.t, h.Admin.CoreV1().Pods(h.namespace).Delete(h.t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace}))
}

// token requests a token of the account for an object; nil is for none.
func (h *home) token(bound *authenticationv1.BoundObjectReference, audiences ...string) string {
	h.t.Helper()
	if len(audiences) == 0 {
		audiences = []string{audience}
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences, BoundObjectRef: bound}}
	answer, err := h.Admin.CoreV1().ServiceAccounts(h.namespace).CreateToken(h.t.Context(), "monitor", request, metav1.CreateOptions{})
	must(h.t, err)
	return answer.Status.Token
}

// ofPod names a pod for token.
func ofPod(pod *corev1.Pod) *authenticationv1.BoundObjectReference {
	return &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
}

// watches are both kinds of pod watch, for the home's node.
func (h *home) watches() map[string]*liveness.Pods {
	h.t.Helper()
	socket, err := liveness.NewNodePods(h.Admin, h.node.Name, nil, liveness.Options{})
	must(h.t, err)
	deployment, err := liveness.NewLabelledPods(h.meta, liveness.Options{})
	must(h.t, err)
	watching(h.t, socket)
	watching(h.t, deployment)
	return map[string]*liveness.Pods{"socket": socket, "deployment": deployment}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wants fails the test unless a token is refused for the reason; an empty one wants a verdict.
func wants(t *testing.T, r *tokenreview.Reviewer, token string, want tokenreview.Reason) {
	t.Helper()
	_, err := r.Review(t.Context(), token, nil)
	if got := tokenreview.ReasonOf(err); got != want {
		t.Errorf("reason = %q (%v), want %q", got, err, want)
	}
}

// gone waits until the API server shows nothing of an object.
func gone(t *testing.T, get func() error) {
	t.Helper()
	timing.Within(t, 2*time.Minute, "the object is gone", func() bool { return apierrors.IsNotFound(get()) })
}

// parts are the texts that must not be found anywhere: a token's payload and signature. Its header is that of every token.
func parts(token string) []string { return strings.Split(token, ".")[1:] }

func garbage(i int) string { return fmt.Sprintf("%d.%d.%d", i, i, i) }
