//go:build unix

package tokens

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

func TestWhoseATokenIs(t *testing.T) {
	h := shared.home(t)
	account, err := h.Admin.CoreV1().ServiceAccounts(h.namespace).Get(t.Context(), "monitor", metav1.GetOptions{})
	must(t, err)
	pod, pending := h.pod("here", h.node.Name), h.pod("nowhere", "")
	lost := h.pod("lost", h.namespace+"-no-such-node")
	whole := tokenreview.Verdict{
		Username: "system:serviceaccount:" + h.namespace + ":monitor", Namespace: h.namespace, ServiceAccount: "monitor",
		UID: string(account.UID),
	}
	r := reviewer(t, h.backend(t, reviewerUser))
	for name, tc := range map[string]struct {
		token string
		want  func(*tokenreview.Verdict)
	}{
		"a pod on a node": {h.token(ofPod(pod)), func(v *tokenreview.Verdict) {
			v.PodName, v.PodUID, v.NodeName, v.NodeUID = pod.Name, string(pod.UID), h.node.Name, string(h.node.UID)
		}},
		"T13 a pod, for two audiences": {h.token(ofPod(pod), audience, "another"), func(v *tokenreview.Verdict) {
			v.PodName, v.PodUID, v.NodeName, v.NodeUID = pod.Name, string(pod.UID), h.node.Name, string(h.node.UID)
		}},
		"T18 a pod that was never scheduled": {h.token(ofPod(pending)), func(v *tokenreview.Verdict) {
			v.PodName, v.PodUID = pending.Name, string(pending.UID)
		}},
		"a pod on a node that does not exist": {h.token(ofPod(lost)), func(v *tokenreview.Verdict) {
			v.PodName, v.PodUID, v.NodeName = lost.Name, string(lost.UID), lost.Spec.NodeName
		}},
		"T16 bound to nothing": {h.token(nil), func(*tokenreview.Verdict) {}},
		"T17 bound to a node": {
			h.token(&authenticationv1.BoundObjectReference{Kind: "Node", APIVersion: "v1", Name: h.node.Name, UID: h.node.UID}),
			func(v *tokenreview.Verdict) { v.NodeName, v.NodeUID = h.node.Name, string(h.node.UID) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := r.Review(t.Context(), tc.token, nil)
			must(t, err)
			want := whole
			tc.want(&want)
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(tokenreview.Verdict{}, "CredentialID", "Expiry")); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
			if left := time.Until(got.Expiry); got.CredentialID == "" || left < 55*time.Minute || left > time.Hour {
				t.Errorf("credential id %q, expires in %s", got.CredentialID, left)
			}
		})
	}
}

func TestTokensThatAreNotOurs(t *testing.T) {
	h := shared.home(t)
	pod := h.pod("here", h.node.Name)
	good := h.token(ofPod(pod))
	b := h.backend(t, reviewerUser)
	for name, tc := range map[string]struct {
		token string
		calls int64
	}{
		"for another audience":                 {h.token(ofPod(pod), "another"), 0},
		"T14 for the API server itself":        {h.token(ofPod(pod), "https://kubernetes.default.svc.cluster.local"), 0},
		"T9 with a leading space":              {" " + good, 0},
		"T9 a space and a letter":              {" x", 0},
		"T15 a legacy token from a Secret":     {h.legacy(), 0},
		"with another signature":               {good[:len(good)-8] + "AAAAAAAA", 1},
		"with a payload that was not signed":   {swapped(good, h.token(nil)), 1},
		"T26 a good one with something behind": {good + ".x", 0},
	} {
		t.Run(name, func(t *testing.T) {
			before := b.calls.Load()
			wants(t, reviewer(t, b), tc.token, tokenreview.TokenInvalid)
			if got := b.calls.Load() - before; got != tc.calls {
				t.Errorf("%d reviews, want %d", got, tc.calls)
			}
		})
	}
	t.Run("T13 for two audiences, where one is asked for", func(t *testing.T) {
		r := reviewer(t, b, func(o *tokenreview.Options) { o.SingleAudience = true })
		wants(t, r, h.token(ofPod(pod), audience, "another"), tokenreview.TokenInvalid)
		wants(t, r, good, "")
	})
}

// swapped is one token with another's payload.
func swapped(one, other string) string {
	p, q := parts(one), parts(other)
	return one[:len(one)-len(p[0])-len(p[1])-1] + q[0] + "." + p[1]
}

// legacy makes a token of the kind that lies in a Secret and never expires.
func (h *home) legacy() string {
	h.t.Helper()
	secrets := h.Admin.CoreV1().Secrets(h.namespace)
	_, err := secrets.Create(h.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "legacy", Annotations: map[string]string{corev1.ServiceAccountNameKey: "monitor"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{})
	must(h.t, err)
	var token string
	timing.Within(h.t, 2*time.Minute, "the controller has written the token", func() bool {
		s, err := secrets.Get(h.t.Context(), "legacy", metav1.GetOptions{})
		must(h.t, err)
		token = string(s.Data[corev1.ServiceAccountTokenKey])
		return token != ""
	})
	return token
}

// TestRBACMissing is T30.
func TestRBACMissing(t *testing.T) {
	h := shared.home(t)
	r := reviewer(t, h.backend(t, "system:serviceaccount:lanyard:nobody"))
	_, err := r.Review(t.Context(), h.token(nil), nil)
	if tokenreview.ReasonOf(err) != tokenreview.ValidatorError {
		t.Fatalf("error = %v, want %s", err, tokenreview.ValidatorError)
	}
	if e, ok := err.(*tokenreview.Error); !ok || e.Hint != tokenreview.RuleHint {
		t.Errorf("error = %#v, want the hint that names the rule", err)
	}
	t.Logf("an operator reads: %v", err)
	strangers := h.ConfigForToken("not.a.token")
	b, err := tokenreview.NewAPIServer(strangers)
	must(t, err)
	wants(t, reviewer(t, b), h.token(nil), tokenreview.ValidatorError)
}

// TestAThousandFirstUses is T28.
func TestAThousandFirstUses(t *testing.T) {
	h := shared.home(t)
	b := h.backend(t, reviewerUser)
	r := reviewer(t, b)
	token, bucket := h.token(ofPod(h.pod("here", h.node.Name))), r.NewBucket()
	begin := make(chan struct{})
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			<-begin
			if _, err := r.Review(t.Context(), token, bucket); err != nil {
				t.Error(err)
			}
		})
	}
	start := time.Now()
	close(begin)
	all.Wait()
	t.Logf("1,000 first uses at once took %s", time.Since(start))
	if got := b.calls.Load(); got != 1 {
		t.Errorf("%d reviews, want 1", got)
	}
}

// TestAFloodOfGarbage is T24.
func TestAFloodOfGarbage(t *testing.T) {
	h := shared.home(t)
	b := h.backend(t, reviewerUser)
	r := reviewer(t, b)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, start := heap(), time.Now()
	for i := range 100_000 {
		if _, err := r.Review(t.Context(), garbage(i), nil); tokenreview.ReasonOf(err) != tokenreview.TokenInvalid {
			t.Fatal(err)
		}
	}
	took, after := time.Since(start), heap()
	t.Logf("100,000 took %s; the heap went from %d to %d KiB", took, before>>10, after>>10)
	if got := b.calls.Load(); got != 0 {
		t.Errorf("%d reviews, want 0", got)
	}
	if after > before+1<<20 {
		t.Errorf("the heap grew by %d bytes", after-before)
	}
	wants(t, r, h.token(nil), "")
}
