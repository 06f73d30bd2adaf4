package liveness

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"
	clocktesting "k8s.io/utils/clock/testing"
)

func node(name, uid string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
}

func TestNodes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		only      string
		see       func(*nodeStore) []error
		wait      time.Duration
		want      string // the UID of node n
		untrusted bool
	}{
		"the live node": {
			see: func(s *nodeStore) []error { return []error{s.Add(node("n", "1"))} }, want: "1",
		},
		"a node re-created under the same name": {
			see: func(s *nodeStore) []error {
				return []error{s.Add(node("n", "1")), s.Delete(node("n", "1")), s.Add(node("n", "2"))}
			}, want: "2",
		},
		"a node re-created while nobody watched": {
			see: func(s *nodeStore) []error {
				return []error{s.Add(node("n", "1")), s.Replace([]any{node("n", "2")}, "")}
			}, want: "2",
		},
		"a deleted node": {
			see: func(s *nodeStore) []error { return []error{s.Add(node("n", "1")), s.Delete(node("n", "1"))} },
		},
		"a node that went while nobody watched": {
			see: func(s *nodeStore) []error { return []error{s.Add(node("n", "1")), s.Replace(nil, "")} },
		},
		"a node that never was": {see: func(*nodeStore) []error { return nil }},
		"another node":          {see: func(s *nodeStore) []error { return []error{s.Add(node("m", "1"))} }},
		"the one node that the watch covers": {
			only: "n", see: func(s *nodeStore) []error { return []error{s.Update(node("n", "1"))} }, want: "1",
		},
		"a watch that is silent": {
			see: func(s *nodeStore) []error { return []error{s.Add(node("n", "2"))} }, wait: 71 * time.Second, want: "2", untrusted: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
			n, err := newNodes(&fake.FakeMetadataClient{}, tc.only, Options{Clock: clock})
			must(t, err)
			n.pulse.opened(clock.Now())
			s := (*nodeStore)(n)
			must(t, s.Replace(nil, ""))
			must(t, tc.see(s)...)
			clock.Step(tc.wait)
			if uid, trusted := n.UID("n"), n.Trusted(clock.Now()); uid != tc.want || trusted == tc.untrusted {
				t.Errorf("UID %q, trusted %t, want %q, %t", uid, trusted, tc.want, !tc.untrusted)
			}
		})
	}
}
