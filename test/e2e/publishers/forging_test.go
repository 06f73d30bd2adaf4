//go:build linux

package publishers

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// forgedCheck is the check of everything that the forgers send: as a condition of a node it would show that one of them got through.
const forgedCheck = "ForgedCheck"

// forging is a listed publisher that has gone bad: it names the other node, with its own token, without any, and with those that it
// has made out of its own.
func (r *rig) forging(node, other string) *corev1.Pod {
	return r.publisherPod(listedSpace, "forger-on-"+node, monitor, node, append([]string{"attempt"}, forgeries(other)...)...)
}

// forgeries are how a forger names another node.
func forgeries(other string) []string {
	return []string{"--as=own,none,tampered,renamed,unsigned,garbage,twice", "--node=" + other, "--check=" + forgedCheck, "--fatal", "--interval=150ms"}
}

// nothingForged wants the forgers to have gone on, and to have got nothing through: not by any answer, nor into the log, the store or
// the conditions of any node.
func (r *rig) nothingForged(t testing.TB) {
	t.Helper()
	for node, forger := range r.forgers {
		r.alwaysRefused(t, forger)
		for _, place := range []string{r.near, r.far} {
			if got := r.rows(t, place, forger.Name+"-"); len(got) > 0 {
				t.Errorf("%s has stored %d events of %s", place, len(got), forger.Name)
			}
		}
		if got := r.written(t, node, forger.Name+"-"); len(got) > 0 {
			t.Errorf("%s has written %d events of %s", node, len(got), forger.Name)
		}
		if c := r.condition(t, node, forgedCheck); c != nil {
			t.Errorf("%s shows %s", node, strings.ToLower(c.Reason))
		}
	}
}

// alwaysRefused wants a forger to go on and never to have had another answer than a refusal or an outage.
func (r *rig) alwaysRefused(t testing.TB, forger *corev1.Pod) {
	t.Helper()
	before := len(r.attempts(t, forger))
	await(t, patience, forger.Name+" goes on", func() bool { return len(r.attempts(t, forger)) > before })
	answers := map[string]int{}
	earlier, err := r.output(t.Context(), forger, "main", true)
	if err != nil {
		earlier = "" // it was never restarted
	}
	for _, a := range append(lines(earlier, isAttempt), r.attempts(t, forger)...) {
		answers[a.As+": "+a.Code]++
		switch a.Code {
		case "PermissionDenied", "Unauthenticated", "Unavailable", "DeadlineExceeded":
		default:
			t.Errorf("%s, call %d as %s: %s: %s; want it refused", forger.Name, a.N, a.As, a.Code, a.Message)
		}
		if a.Code == "PermissionDenied" && !slices.Contains([]string{"own", "none"}, a.As) {
			t.Errorf("%s, call %d: the token %s was taken for a genuine one: %s", forger.Name, a.N, a.As, a.Message)
		}
	}
	t.Logf("%s was answered %v", forger.Name, answers)
}
