//go:build linux

package publishers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// replaced counts how often a connector found its path to lead elsewhere.
const replaced = "lanyard_connector_socket_replaced_total"

// squatter is a pod that mounts the socket's directory so that it could write to it, and is not root.
func (r *rig) squatter(name string, args ...string) *corev1.Pod {
	pod := r.publisherPod(strangerSpace, name, "default", r.far, append([]string{"squat"}, args...)...)
	pod.Spec.Containers[0].VolumeMounts[0].ReadOnly = false
	return pod
}

// TestTheSocketIsTaken replaces a connector's socket, on a node whose operator has opened the directory to everybody. The connector
// notices; a publisher that mounts the directory read-only does not speak to somebody else, and loses nothing.
func TestTheSocketIsTaken(t *testing.T) {
	r := enter(t)
	closed := r.create(t, r.squatter("with-the-directory-closed"))
	r.awaitPhase(t, closed, corev1.PodFailed) // the directory is root's, and nobody may write to it
	_, err := r.inside(t.Context(), r.far, "chmod", "0777", hostDir)
	must(t, err)
	t.Cleanup(func() { _, _ = r.inside(cleaning(), r.far, "chmod", "0755", hostDir) })

	l := r.startLoad(t, "socket", r.far)
	before := -1.0
	await(t, patience, "the connector's count can be read", func() bool { before = r.metric(t, r.connector(t, r.far), replaced); return before >= 0 })
	t.Run("removed", func(t *testing.T) {
		remover := r.create(t, r.squatter("remover", "--listen=false"))
		r.awaitPhase(t, remover, corev1.PodSucceeded)
		took := await(t, patience, "the connector has bound it again", func() bool { return r.metric(t, r.connector(t, r.far), replaced) == before+1 })
		l.goesOn(t)
		t.Logf("bound again %s after the pod that removed it had ended", took.Round(time100))
	})
	t.Run("replaced", func(t *testing.T) {
		aside := hostDir + "/aside.sock"
		t.Cleanup(func() { _, _ = r.inside(cleaning(), r.far, "rm", "-f", aside) })
		squatter := r.create(t, r.squatter("squatter", "--aside="+aside))
		await(t, patience, "the connector is not ready", func() bool { return !r.ready(t.Context(), r.far) })
		if got := r.metric(t, r.connector(t, r.far), replaced); got != before+2 {
			t.Errorf("%v replacements are counted, want %v", got, before+2)
		}
		newcomer := r.create(t, r.publisherPod(listedSpace, "to-the-squatter", monitor, r.far, "publisher", "--store-only", "--count=1"))
		r.awaitPhase(t, newcomer, corev1.PodRunning)
		await(t, patience, "publishers have called at the squatter's", func() bool { return r.called(t, squatter) > 0 })
		must(t, r.end(t.Context(), squatter))
		took := await(t, patience, "the connector is ready again", func() bool { return r.ready(t.Context(), r.far) })
		t.Logf("ready again %s after the squatter was told to end", took.Round(time100))
		if got := r.sentTo(t, squatter); got != 0 {
			t.Errorf("%d bytes were sent to the squatter", got)
		}
		wantTaken(t, r.one(t, newcomer))
		l.goesOn(t)
	})
	t.Logf("the longest that a batch was on its way: %s", l.check(t).Round(time100))
}
