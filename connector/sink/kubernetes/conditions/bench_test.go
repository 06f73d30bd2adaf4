package conditions

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
)

// BenchmarkDecide measures a fault that is known already, on a node with eight of them: what a flood comes to.
func BenchmarkDecide(b *testing.B) {
	var current []corev1.NodeCondition
	for i := range 8 {
		plan := Decide(rules(), current, []*healtheventv1.HealthEvent{event(gpu(fmt.Sprint(i)))}, now())
		current = plan.Conditions
	}
	again := []*healtheventv1.HealthEvent{event(gpu("3"))}
	b.ReportAllocs()
	for b.Loop() {
		if plan := Decide(rules(), current, again, now()); len(plan.Conditions) > 0 {
			b.Fatal("it changes something")
		}
	}
}
