//go:build linux

package exchange

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// wants fails the test unless a subject token comes to this status and error.
func (h *house) wants(what, token string, status int, code string) answer {
	h.t.Helper()
	a := h.exchange(token)
	got, _ := a.body["error"].(string)
	if a.status != status || got != code {
		h.t.Errorf("%s: %d %v, want %d %q", what, a.status, a.body, status, code)
	}
	return a
}

func TestAPodsTokenBecomesItsSubmitters(t *testing.T) {
	h := shared.house(t)
	h.open()
	pod := h.pod("train")
	h.delegated(pod)
	h.wants("the pod's own", h.subject(pod), 200, "")
	h.wants("of the API server's audience", h.token(t, h.namespace, runner, pod, ""), 400, "invalid_request")
	h.wants("of the issued audience", h.token(t, h.namespace, runner, pod, wire.DefaultWorkloadAudience), 400, "invalid_request")
	h.wants("bound to no pod", h.token(t, h.namespace, runner, nil, wire.DefaultJobAudience), 400, "invalid_request")
	h.wants("of a pod that nobody has judged", h.subject(h.pod("other")), 503, "temporarily_unavailable")
}

// TestAHeldExchange: the token comes before the judgement, and waits for it.
func TestAHeldExchange(t *testing.T) {
	h := shared.house(t)
	h.open()
	pod := h.pod("train")
	token := h.subject(pod)
	var wg sync.WaitGroup
	wg.Go(func() { h.wants("held", token, 200, "") })
	timing.Within(t, 10*time.Second, "the request is held", func() bool { return h.room.Taken() == 1 })
	h.delegated(pod)
	h.room.Judged(h.row(pod))
	wg.Wait()
}

// TestAPodThatFinished: its token goes on being valid for the API server, and its row says no at once.
func TestAPodThatFinished(t *testing.T) {
	h := shared.house(t)
	h.open()
	pod := h.pod("train")
	h.delegated(pod)
	token := h.subject(pod)
	h.wants("before", token, 200, "")
	pod.Status.Phase = corev1.PodSucceeded
	_, err := h.Admin.CoreV1().Pods(h.namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	must(t, err)
	_, err = h.store.Revoke(t.Context(), delegation.Revocation{Row: h.row(pod), Reason: delegation.PodEnded, At: time.Now()})
	must(t, err)
	h.wants("the same token", token, 400, "invalid_request")
	h.wants("a new token", h.subject(pod), 400, "invalid_request")
	h.reviewed(token)
}

// reviewed makes sure that the API server itself accepts a token.
func (h *house) reviewed(token string) {
	h.t.Helper()
	review, err := h.Admin.AuthenticationV1().TokenReviews().Create(h.t.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{wire.DefaultJobAudience}},
	}, metav1.CreateOptions{})
	must(h.t, err)
	if !review.Status.Authenticated {
		h.t.Errorf("the API server says no: %s", review.Status.Error)
	}
}

// TestAPodThatIsDeleted: within its grace period it may still upload its last checkpoint; afterwards nothing, though nobody has revoked
// its row yet.
func TestAPodThatIsDeleted(t *testing.T) {
	h := shared.house(t)
	h.open()
	pod := h.pod("train")
	h.delegated(pod)
	token := h.subject(pod)
	h.wants("before", token, 200, "")
	grace := int64(600)
	must(t, h.Admin.CoreV1().Pods(h.namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace}))
	h.wants("within the grace period", token, 200, "")
	h.wants("within the grace period, a new token", h.subject(pod), 200, "")
	grace = 0
	must(t, h.Admin.CoreV1().Pods(h.namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace}))
	start := time.Now()
	timing.Within(t, 5*time.Second, "the token is refused", func() bool { return h.exchange(token).status == 400 })
	t.Logf("refused %s after the pod was gone", time.Since(start))
}

// TestTheExchangesOwnClockIsTenMinutesOff: nobody gets a token that is good for longer than it should be. Ahead, a subject token of the
// kubelet's ten minutes counts as ended, and access tokens begin in ten minutes; behind, they have ended when they are given out. Each is
// refused by whoever verifies it by a clock of its own.
func TestTheExchangesOwnClockIsTenMinutesOff(t *testing.T) {
	const off, leeway = 10 * time.Minute, time.Minute
	for name, by := range map[string]time.Duration{"ahead": off, "behind": -off} {
		t.Run(name, func(t *testing.T) {
			h := shared.house(t)
			h.openAt(by)
			pod := h.pod("train")
			h.delegated(pod)
			short, err := requestFor(t, h.Admin, h.namespace, runner, pod, wire.DefaultJobAudience, new(int64(600)))
			must(t, err)
			if by > 0 {
				h.wants("a subject token of ten minutes", short, 400, "invalid_request")
			}
			a := h.wants("one of an hour", h.subject(pod), 200, "")
			raw, err := base64.RawURLEncoding.DecodeString(strings.Split(a.token(), ".")[1])
			must(t, err)
			var claims struct{ Nbf, Exp int64 }
			must(t, json.Unmarshal(raw, &claims))
			now := time.Now()
			begins, ends := time.Unix(claims.Nbf, 0), time.Unix(claims.Exp, 0)
			if by > 0 && !begins.After(now.Add(leeway)) || by < 0 && !ends.Before(now.Add(-leeway)) {
				t.Errorf("the token is good from %s to %s, and it is %s", begins, ends, now)
			}
		})
	}
}

// TestTheAPIServerIsDown: 503, and never a word about the token.
func TestTheAPIServerIsDown(t *testing.T) {
	h := shared.house(t)
	h.open()
	pod := h.pod("train")
	h.delegated(pod)
	known, strangers := h.subject(pod), []string{}
	for range 6 {
		strangers = append(strangers, h.subject(pod))
	}
	access := h.wants("before", known, 200, "").token()
	must(t, h.Pause(cluster.APIServer))
	up := sync.OnceFunc(func() { must(t, h.Resume(cluster.APIServer)) })
	defer up()
	for _, s := range strangers[:5] {
		if a := h.wants("a stranger", s, 503, "temporarily_unavailable"); a.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		h.wants("a known token", known, 200, "")
	}
	if a := h.callout(access); a.status != 200 {
		t.Errorf("the gateways' callout: %d", a.status)
	}
	up()
	timing.Within(t, 30*time.Second, "a stranger is known again", func() bool { return h.exchange(strangers[5]).status == 200 })
}
