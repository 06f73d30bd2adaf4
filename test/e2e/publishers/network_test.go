//go:build linux

package publishers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// caller is a pod of somebody of whom nothing is known, who calls the Deployment without a token.
func (r *rig) caller(name string) (*corev1.Pod, change) {
	ca := volume("ca", wire.CAMountPath, true, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: wire.DefaultCAConfigMap},
	}})
	return r.plainPod(strangerSpace, name, "default", r.far, "attempt", overTLS, checking, "--as=none", "--token-file=", "--interval=250ms", "--timeout=2s"), ca
}

// kept out says whether the last answers that a caller had show that the network let nothing through.
func keptOut(all []attempt) bool { return lastAre(all, "Unavailable", "DeadlineExceeded") }

// letIn says whether they are the connector's.
func letIn(all []attempt) bool { return lastAre(all, "Unauthenticated") }

// lastAre says whether the last three answers have one of some codes.
func lastAre(all []attempt, codes ...string) bool {
	if len(all) < 3 {
		return false
	}
	for _, a := range all[len(all)-3:] {
		ok := false
		for _, c := range codes {
			ok = ok || a.Code == c
		}
		if !ok {
			return false
		}
	}
	return true
}

// TestNetworkPolicies: the Deployment's port is open to the namespaces of publishers and to no other. (Without the policies a stranger
// gets there and is refused by the connector: see the rollout.)
func TestNetworkPolicies(t *testing.T) {
	t.Parallel()
	r := enter(t)
	r.giveCA(t, strangerSpace)
	pod, ca := r.caller("outside")
	stranger := r.create(t, pod, ca)
	inside := r.create(t, r.plainPod(restrictedSpace, "inside", monitor, r.far, "attempt", overTLS, checking, "--as=none", "--interval=250ms", "--timeout=2s"))
	await(t, patience, "who is inside reaches the connector", func() bool { return letIn(r.attempts(t, inside)) })
	await(t, patience, "a stranger does not", func() bool { return keptOut(r.attempts(t, stranger)) })
}
