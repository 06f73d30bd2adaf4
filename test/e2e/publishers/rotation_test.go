//go:build linux

package publishers

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// rotating is a publisher with a token of 600 s, the shortest there is, and beside it a container that tells when the file holds
// another one. The kubelet replaces a token when four fifths of its time are over. The publisher repeats a batch for as long as the test may
// last: one that is late is not lost, and one that is refused is not repeated.
func (r *rig) rotating() *corev1.Pod {
	pod := r.publisherPod(listedSpace, "rotated", monitor, r.near, "publisher", "--store-only", "--interval=1s", "--patience=50m")
	pod.Spec.Containers = append(pod.Spec.Containers, r.container("watcher", "claims", "--follow=1s"))
	return pod
}

// claims are what the watcher tells of a token: nothing that could be presented.
type claims struct {
	ID      string `json:"jti"`
	Issued  int64  `json:"iat"`
	Expires int64  `json:"exp"`
}

// TestRotation has a publisher send every second while the kubelet replaces its token, beside everything else that happens meanwhile.
func TestRotation(t *testing.T) {
	t.Parallel()
	r := enter(t)
	tokens := func() []claims {
		return lines(r.log(t, r.rotated, "watcher"), func(c claims) bool { return c.ID != "" })
	}
	await(t, 20*time.Minute, "the kubelet has replaced the token", func() bool { return len(tokens()) >= 2 })
	all := tokens()
	t.Logf("token %s was replaced by %s %d s after it was made, of %d", digest(all[0].ID), digest(all[1].ID), all[1].Issued-all[0].Issued, all[0].Expires-all[0].Issued)
	if all[0].ID == all[1].ID || all[0].Expires-all[0].Issued != 600 {
		t.Errorf("two tokens of 600 s are wanted, got %s of %d s and %s", digest(all[0].ID), all[0].Expires-all[0].Issued, digest(all[1].ID))
	}
	before := len(r.batches(t, r.rotated))
	await(t, patience, "ten batches follow", func() bool { return len(r.batches(t, r.rotated)) >= before+10 })
	for _, b := range r.everything(t, r.rotated) {
		wantTaken(t, b)
		if took := time.Duration(b.Millis) * time.Millisecond; took > patience {
			t.Errorf("batch %s took %s", b.ID, took.Round(time.Second))
		}
	}
	r.kept(t, r.rotated)
	credentials := map[string]int{}
	for _, one := range r.rows(t, r.near, r.rotated.Name+"-") {
		credentials[digest(one.Credential)]++
	}
	t.Logf("events by the token that they came with: %v", credentials)
	for _, c := range all {
		if credentials[digest("JTI="+c.ID)] == 0 {
			t.Errorf("no event came with token %s", digest(c.ID))
		}
	}
}

// digest stands for something that is not shown.
func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}
