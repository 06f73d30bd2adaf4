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

func TestNodeState(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		only string
		see  func(*nodeStore) []error
		uid  string
		wait time.Duration
		want State
	}{
		"the live node": {
			see: func(s *nodeStore) []error { return []error{s.Add(node("n", "1"))} }, uid: "1", want: Alive,
		},
		"a node re-created under the same name": {
			see: func(s *nodeStore) []error {
				return []error{s.Add(node("n", "1")), s.Delete(node("n", "1")), s.Add(node("n", "2"))}
			}, uid: "1", want: Dead,
		},
		"a node re-created while nobody watched": {
			see: func(s *nodeStore) []error {
				return []error{s.Add(node("n", "1")), s.Replace([]any{node("n", "2")}, "")}
			}, uid: "1", want: Dead,
		},
		"a deleted node": {
			see: func(s *nodeStore) []error { return []error{s.Add(node("n", "1")), s.Delete(node("n", "1"))} }, uid: "1", want: Dead,
		},
		"a node that never was": {see: func(*nodeStore) []error { return nil }, uid: "1", want: Dead},
		"a token without a node UID": {
			see: func(s *nodeStore) []error { return []error{s.Add(node("n", "1"))} }, uid: "", want: Unknown,
		},
		"a node that the watch does not cover": {only: "another", see: func(*nodeStore) []error { return nil }, uid: "1", want: Unknown},
		"the one node that the watch covers": {
			only: "n", see: func(s *nodeStore) []error { return []error{s.Update(node("n", "1"))} }, uid: "1", want: Alive,
		},
		"another UID, but the watch is silent": {
			see: func(s *nodeStore) []error { return []error{s.Add(node("n", "2"))} }, uid: "1", wait: 71 * time.Second, want: Unknown,
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
			if got := n.State("n", tc.uid, clock.Now()); got != tc.want {
				t.Errorf("state = %s, want %s", got, tc.want)
			}
		})
	}
}
