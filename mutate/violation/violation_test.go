package violation_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/mutate/violation"
)

// TestLoosened states a second time what mode audit lets through: names, paths and what only looks like a name.
func TestLoosened(t *testing.T) {
	t.Parallel()
	strict := map[violation.Reason]bool{
		violation.AudienceForbidden: true, violation.NotInjected: true, violation.Metadata: true, violation.Windows: true,
	}
	seen := map[violation.Reason]bool{}
	for _, r := range violation.Reasons() {
		if r == "" || seen[r] {
			t.Errorf("reason %q is empty or listed twice", r)
		}
		seen[r] = true
		if r.Loosened() == strict[r] {
			t.Errorf("reason %q: loosened is %v", r, r.Loosened())
		}
	}
	if violation.Reason("").Loosened() || violation.Reason("new").Loosened() {
		t.Error("an unknown reason is loosened")
	}
}

func TestSort(t *testing.T) {
	t.Parallel()
	v := func(field string, reason violation.Reason, message string) violation.Violation {
		return violation.Violation{Field: field, Reason: reason, Message: message}
	}
	got := []violation.Violation{v("b", violation.Windows, ""), v("a", violation.Windows, "z"), v("a", violation.Windows, "y"), v("a", violation.Metadata, "")}
	violation.Sort(got)
	want := []violation.Violation{v("a", violation.Metadata, ""), v("a", violation.Windows, "y"), v("a", violation.Windows, "z"), v("b", violation.Windows, "")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order differs (-want +got):\n%s", diff)
	}
}
