//go:build linux

package publishers

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// TestADaemonSetOnBothNodes runs the usual publisher: one on each node, of a manifest that says nothing of tokens. What it reports is
// seen at the end, as a condition of its own node and in the connector's log, under the name that its token's review has shown.
func TestADaemonSetOnBothNodes(t *testing.T) {
	t.Parallel()
	r := enter(t)
	pod := r.publisherPod(listedSpace, "daemon", monitor, r.near, "publisher", "--check=DaemonCheck", "--fatal", "--entity=gpu-0", "--interval=500ms")
	pod.Spec.NodeSelector, pod.Spec.RestartPolicy = nil, corev1.RestartPolicyAlways
	set, err := r.admin.AppsV1().DaemonSets(listedSpace).Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "daemon"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}, Template: corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { r.removeSet(set) })
	if n := len(set.Spec.Template.Spec.Volumes); n != 1 {
		t.Errorf("the template has %d volumes, want the socket's alone", n)
	}
	for node, one := range r.podsOf(t, set) {
		r.acknowledged(t, one, 2)
		if !injected(one) {
			t.Errorf("pod %s carries no token of the platform's", one.Name)
		}
		for _, e := range r.written(t, node, one.Name+"-") {
			if e.Node != node || e.Pod != one.Name || e.PodUID != string(one.UID) || e.Scope != "node_local" ||
				e.Caller != "system:serviceaccount:"+listedSpace+":"+monitor || !strings.HasPrefix(e.Credential, "JTI=") {
				t.Errorf("%s wrote %+v, want it to be of %s", node, e, one.Name)
			}
		}
		await(t, patience, node+" shows the condition", func() bool {
			c := r.condition(t, node, "DaemonCheck")
			return c != nil && c.Status == corev1.ConditionTrue && c.Reason == "DaemonCheck"+wire.ReasonUnhealthySuffix && strings.Contains(c.Message, "GPU:gpu-0")
		})
	}
	healed := r.create(t, r.publisherPod(listedSpace, "healed", monitor, r.near, "publisher", "--check=HealedCheck", "--healthy", "--count=1"))
	wantTaken(t, r.one(t, healed))
	await(t, patience, "a healthy event shows", func() bool {
		c := r.condition(t, r.near, "HealedCheck")
		return c != nil && c.Status == corev1.ConditionFalse
	})
}

// injected says whether a pod has the volume that the webhook writes.
func injected(pod *corev1.Pod) bool {
	for _, v := range pod.Spec.Volumes {
		if v.Name == wire.VolumePublisher && v.Projected != nil {
			s := v.Projected.Sources[0].ServiceAccountToken
			return s != nil && s.Audience == wire.DefaultPublisherAudience && pod.Labels[wire.LabelInjected] == wire.RolePublisher
		}
	}
	return false
}

// TestALesserFaultBecomesAnEvent: what is neither fatal nor healthy is told as an Event of the node.
func TestALesserFaultBecomesAnEvent(t *testing.T) {
	t.Parallel()
	r := enter(t)
	pod := r.create(t, r.publisherPod(listedSpace, "lesser", monitor, r.far, "publisher", "--check=LesserCheck", "--message=a fan is slow", "--count=1"))
	wantTaken(t, r.one(t, pod))
	await(t, patience, "the Event is there", func() bool {
		events, err := r.admin.CoreV1().Events("").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + r.far})
		if err != nil {
			return false
		}
		for _, e := range events.Items {
			if strings.Contains(e.Message, "a fan is slow") {
				return e.Type == corev1.EventTypeWarning
			}
		}
		return false
	})
}

// TestAnotherNodeIsRefused: on either node a publisher may not speak of the other.
func TestAnotherNodeIsRefused(t *testing.T) {
	t.Parallel()
	r := enter(t)
	for node, other := range map[string]string{r.near: r.far, r.far: r.near} {
		t.Run(node, func(t *testing.T) {
			t.Parallel()
			pod := r.create(t, r.publisherPod(listedSpace, "foreign-"+node, monitor, node, "publisher", "--node="+other, "--check=ForeignCheck", "--fatal", "--count=1"))
			wantRefusal(t, r.one(t, pod), "PermissionDenied", "names another node than the caller's own")
			r.refusedFor(t, node, "node_mismatch", pod)
			if rows := r.rows(t, node, pod.Name+"-"); len(rows) > 0 {
				t.Errorf("%s has stored %+v", node, rows)
			}
			if c := r.condition(t, other, "ForeignCheck"); c != nil {
				t.Errorf("%s shows %+v", other, c)
			}
		})
	}
}

// TestAStolenTokenIsRefused takes a token off the node that it was made on, with whatever right the thief has over that node, and
// presents it on the other one: for its own node and for that of the thief. At home it goes on working.
func TestAStolenTokenIsRefused(t *testing.T) {
	t.Parallel()
	r := enter(t)
	victim := r.create(t, r.publisherPod(listedSpace, "victim", monitor, r.far, "publisher", "--store-only", "--interval=500ms"))
	r.acknowledged(t, victim, 1)
	stolen := r.loot(t, victim, "stolen")
	t.Run("on the other node", func(t *testing.T) {
		for name, node := range map[string]string{"for-its-own-node": r.far, "for-the-thief-s": r.near, "for-no-name": ""} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				thief := r.create(t, r.publisherPod(strangerSpace, "thief-"+name, "default", r.near, "publisher", "--token-file="+lootFile,
					"--node="+node, "--check=StolenCheck", "--fatal", "--count=1"), stolen, asUser(int64(40000+len(name))))
				wantRefusal(t, r.one(t, thief), "PermissionDenied", "the token was issued on another node")
				if rows := r.rows(t, r.near, thief.Name+"-"); len(rows) > 0 {
					t.Errorf("stored: %+v", rows)
				}
			})
		}
	})
	r.refusedFor(t, r.near, "node_claim_mismatch", victim)
	r.acknowledged(t, victim, count(r.batches(t, victim), "acknowledged")+1)
}

// TestADeletedPodsTokenIsRefused: a copy of a token works on the node of its pod as long as the pod lives, and no longer.
func TestADeletedPodsTokenIsRefused(t *testing.T) {
	t.Parallel()
	r := enter(t)
	victim := r.create(t, r.publisherPod(listedSpace, "mortal", monitor, r.near, "publisher", "--store-only", "--interval=500ms"))
	r.acknowledged(t, victim, 1)
	stolen := r.loot(t, victim, "of-the-dead")
	heir := r.create(t, r.publisherPod(strangerSpace, "heir", "default", r.near, "attempt", "--token-file="+lootFile, "--interval=200ms"), stolen, asUser(41001))
	accepted := func() bool { all := r.attempts(t, heir); return len(all) > 0 && all[len(all)-1].Code == "OK" }
	await(t, patience, "the copy works while its pod lives", accepted)
	must(t, r.admin.CoreV1().Pods(victim.Namespace).Delete(t.Context(), victim.Name, metav1.DeleteOptions{}))
	began := time.Now()
	var first attempt
	await(t, patience, "the copy is refused", func() bool {
		for _, a := range r.attempts(t, heir) {
			if a.Code != "OK" && a.Code != "Unavailable" && a.Code != "DeadlineExceeded" { // late is not refused
				first = a
				return true
			}
		}
		return false
	})
	t.Logf("refused %s after the pod was deleted, of which its end may take 2 s", time.UnixMilli(first.Unix).Sub(began).Round(time.Millisecond))
	if first.Code != "Unauthenticated" || !strings.Contains(first.Message, "the token's pod has ended") {
		t.Errorf("refused with %s: %s, want Unauthenticated, since its pod has ended", first.Code, first.Message)
	}
	r.refusedFor(t, r.near, "pod_not_live", heir)
	r.awaitMore(t, heir, 5)
	for _, a := range r.attempts(t, heir) {
		if a.N > first.N && a.Code == "OK" {
			t.Errorf("call %d, after the first refusal, was accepted", a.N)
		}
	}
}
