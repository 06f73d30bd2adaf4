package reconcile

import (
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/exchange/provenance"
)

// TestUnlisted: only what can have been a job kind is noted, once, and never as of later.
func TestUnlisted(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]bool{
		"kubeflow.org/PyTorchJob": true, "batch/Job": true, "docker/Job": false, "Pod": false, "job": false, "": false, "/x": false,
	} {
		w := &watches{missing: map[provenance.GroupKind]time.Time{}}
		w.unlisted(text, now.Add(time.Minute))
		w.unlisted(text, now) // the clock was ahead
		kind := w.unlisted(text, now.Add(time.Hour))
		if since, noted := w.missing[kind]; noted != want || noted && !since.Equal(now) {
			t.Errorf("%q: noted %t, since %s", text, noted, since)
		}
	}
}
