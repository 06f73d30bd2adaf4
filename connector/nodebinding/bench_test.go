package nodebinding_test

import (
	"testing"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

// hot is the call that a connector answers most: a publisher's token, a batch with blank names.
func hot(values []string, r nodebinding.Rules, from nodebinding.Evidence, batch events) nodebinding.Outcome {
	_, from.Credential = nodebinding.ReadHeader(values)
	for _, e := range batch {
		e.node = ""
	}
	return nodebinding.Apply(nodebinding.Decide(r, from), nodebinding.Enforce, batch)
}

func hotInput() ([]string, nodebinding.Rules, nodebinding.Evidence, events) {
	return []string{"Bearer eyJh.eyJp.c2ln"}, socket(), live(bound(unlisted, own), ownUID), batchOf("", "", "", "", "", "", "", "", "", "")
}

func TestNothingIsAllocated(t *testing.T) {
	values, r, from, batch := hotInput()
	if n := testing.AllocsPerRun(1000, func() {
		if o := hot(values, r, from, batch); !o.Allowed() || o.Stamped != 10 {
			t.Fatalf("refused: %+v", o)
		}
	}); n != 0 {
		t.Errorf("an allowed batch allocates %v times, want 0", n)
	}
	from.Identity.Node = foreign
	if n := testing.AllocsPerRun(1000, func() {
		if o := hot(values, r, from, batch); o.Reason != nodebinding.NodeClaimMismatch {
			t.Fatalf("not refused: %+v", o)
		}
	}); n != 0 {
		t.Errorf("a refused batch allocates %v times, want 0", n)
	}
}

// BenchmarkDecide is one call with ten events, from the header to the stamp; the token's review is not part of it.
func BenchmarkDecide(b *testing.B) {
	values, r, from, batch := hotInput()
	b.ReportAllocs()
	for b.Loop() {
		if o := hot(values, r, from, batch); !o.Allowed() {
			b.Fatalf("refused: %+v", o)
		}
	}
}
