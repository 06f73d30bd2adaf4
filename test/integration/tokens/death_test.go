//go:build unix

package tokens

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/internal/liveness"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// TestDeadPods is T3, T4, T5 and T6: each token was good a moment before, and the API server itself would go on accepting it.
func TestDeadPods(t *testing.T) {
	h := shared.home(t)
	b := h.backend(t, reviewerUser)
	answers := timing.Answers{}
	for role, pods := range h.watches() {
		for name, tc := range map[string]struct {
			end func(*corev1.Pod)
			// grace is how long the token stays good, reviewed whether a review would still pass when it is not.
			grace    time.Duration
			reviewed bool
		}{
			"T3 deleted": {end: func(p *corev1.Pod) { h.remove(p, 0) }, reviewed: true},
			"T4 terminating, past its deletion time": {
				end: func(p *corev1.Pod) { h.remove(p, 2) }, grace: 2 * time.Second, reviewed: true,
			},
			"T5 succeeded": {end: func(p *corev1.Pod) { h.phase(p, corev1.PodSucceeded) }, reviewed: true},
			"T5 failed":    {end: func(p *corev1.Pod) { h.phase(p, corev1.PodFailed) }, reviewed: true},
			"T6 re-created under the same name": {
				end: func(p *corev1.Pod) { h.remove(p, 0); h.remove(h.pod(p.Name, h.node.Name), 0) }, reviewed: true,
			},
		} {
			t.Run(role+": "+name, func(t *testing.T) {
				r := reviewer(t, b, func(o *tokenreview.Options) { o.Pods = pods })
				pod := h.pod("short-lived", h.node.Name)
				defer func() {
					zero := int64(0)
					_ = h.Admin.CoreV1().Pods(h.namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero})
				}()
				token, unused := h.token(ofPod(pod)), h.token(ofPod(pod))
				wants(t, r, token, "")
				timing.Within(t, 2*time.Minute, "the watch knows the pod", func() bool {
					return pods.State(string(pod.UID), time.Now()) == liveness.Alive
				})
				before := b.calls.Load()
				asked := time.Now()
				tc.end(pod)
				taken := time.Now()
				timing.Within(t, tc.grace+30*time.Second, "the token is refused", func() bool {
					_, err := r.Review(t.Context(), token, nil)
					return tokenreview.ReasonOf(err) == tokenreview.PodNotLive
				})
				t.Logf("refused %s after the API server had taken the end", time.Since(taken))
				answers.Note(role+": a token whose pod has ended", time.Second, time.Since(taken)-tc.grace)
				if took := time.Since(asked); took < tc.grace-1100*time.Millisecond { // deletion times are whole seconds
					t.Errorf("refused after %s, want %s", took, tc.grace)
				}
				wants(t, r, unused, tokenreview.PodNotLive)
				if got := b.calls.Load(); got != before {
					t.Errorf("it took %d reviews to know", got-before)
				}
				if _, err := reviewer(t, b).Review(t.Context(), token, nil); tc.reviewed && err != nil {
					t.Errorf("the API server alone refuses too: %v", err)
				}
			})
		}
	}
	answers.Judge(t) // the watch tells of it; the review's cache alone would believe the token for minutes
}

func (h *home) phase(pod *corev1.Pod, phase corev1.PodPhase) {
	h.t.Helper()
	pod = pod.DeepCopy()
	pod.Status.Phase = phase
	_, err := h.Admin.CoreV1().Pods(h.namespace).UpdateStatus(h.t.Context(), pod, metav1.UpdateOptions{})
	must(h.t, err)
}

func TestAPodThatHadEndedBeforeTheWatchBegan(t *testing.T) {
	h := shared.home(t)
	pod := h.pod("ended", h.node.Name)
	token := h.token(ofPod(pod))
	h.phase(pod, corev1.PodSucceeded)
	for role, pods := range h.watches() {
		want := liveness.Unknown // a metadata-only watch shows no ended pods; the review decides
		if role == "socket" {
			want = liveness.Dead
		}
		if got := pods.State(string(pod.UID), time.Now()); got != want {
			t.Errorf("%s: state = %s, want %s", role, got, want)
		}
		r := reviewer(t, h.backend(t, reviewerUser), func(o *tokenreview.Options) { o.Pods = pods })
		_, err := r.Review(t.Context(), token, nil)
		t.Logf("%s: %v", role, err)
	}
}

// TestANodeThatWasReCreated is T7: the review goes on naming the old machine.
func TestANodeThatWasReCreated(t *testing.T) {
	h := shared.home(t)
	pod := h.pod("here", h.node.Name)
	token := h.token(ofPod(pod))
	own, err := liveness.NewNode(h.meta, h.node.Name, liveness.Options{})
	must(t, err)
	all, err := liveness.NewNodes(h.meta, liveness.Options{})
	must(t, err)
	watching(t, own)
	watching(t, all)
	r := reviewer(t, h.backend(t, reviewerUser))
	v, err := r.Review(t.Context(), token, nil)
	must(t, err)
	for _, n := range []*liveness.Nodes{own, all} {
		if !n.Trusted(time.Now()) || n.UID(v.NodeName) != v.NodeUID {
			t.Fatalf("trusted %t, UID %s, want that of the token, %s", n.Trusted(time.Now()), n.UID(v.NodeName), v.NodeUID)
		}
	}
	nodes := h.Admin.CoreV1().Nodes()
	must(t, nodes.Delete(t.Context(), h.node.Name, metav1.DeleteOptions{}))
	gone(t, func() error { _, err := nodes.Get(t.Context(), h.node.Name, metav1.GetOptions{}); return err })
	again := h.newNode(h.node.Name)
	took := timing.Within(t, 20*time.Second, "the old node is dead", func() bool {
		return own.UID(v.NodeName) == string(again.UID) && all.UID(v.NodeName) == string(again.UID)
	})
	t.Logf("known %s after the new node was made", took)
	later, err := reviewer(t, h.backend(t, reviewerUser)).Review(t.Context(), token, nil)
	if err != nil || later.NodeUID != string(h.node.UID) {
		t.Logf("the API server says %v, %v: it has learnt to look", later.NodeUID, err)
	}
}

// TestAServiceAccountThatWasReCreated is T8: no watch tells, the next review does.
func TestAServiceAccountThatWasReCreated(t *testing.T) {
	h := shared.home(t)
	known, unused := h.token(nil), h.token(nil)
	r := reviewer(t, h.backend(t, reviewerUser), func(o *tokenreview.Options) {
		o.RefreshMin, o.RefreshMax = time.Second, time.Second
	})
	wants(t, r, known, "")
	accounts := h.Admin.CoreV1().ServiceAccounts(h.namespace)
	must(t, accounts.Delete(t.Context(), "monitor", metav1.DeleteOptions{}))
	h.account("monitor")
	timing.Within(t, 5*time.Second, "an unused token is refused", func() bool {
		_, err := reviewer(t, h.backend(t, reviewerUser)).Review(t.Context(), unused, nil)
		return tokenreview.ReasonOf(err) == tokenreview.TokenInvalid
	})
	took := timing.Within(t, 20*time.Second, "the known token is refused", func() bool {
		_, err := r.Review(t.Context(), known, nil)
		return tokenreview.ReasonOf(err) == tokenreview.TokenInvalid
	})
	t.Logf("the known token was refused %s later; the API server remembers for ten seconds", took)
}
