package liveness

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// pod makes a pod object of its own name's UID.
func pod(uid string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "name-of-" + uid, UID: types.UID(uid)}}
	for _, c := range change {
		c(p)
	}
	return p
}

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func deleted(at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: at} }
}

func named(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Name = name } }

// onlyMetadata is what a metadata-only watch shows of a pod.
func onlyMetadata(p *corev1.Pod) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: p.ObjectMeta}
}

// watched returns Pods with a watch that is open and synced.
func watched(t *testing.T) (*Pods, *clocktesting.FakeClock) {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	p, err := newPods(Options{Clock: clock}, source{})
	if err != nil {
		t.Fatal(err)
	}
	p.watches[0].pulse.opened(clock.Now())
	if err := p.watches[0].Replace(nil, ""); err != nil {
		t.Fatal(err)
	}
	return p, clock
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestPodState(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	for name, tc := range map[string]struct {
		see  func(*podStore) []error
		wait time.Duration
		want State
	}{
		"a pod nobody saw is unknown": {
			see: func(s *podStore) []error { return []error{s.Add(pod("another"))} }, want: Unknown,
		},
		"a running pod is alive": {
			see: func(s *podStore) []error { return []error{s.Add(pod("a", phase(corev1.PodRunning)))} }, want: Alive,
		},
		"a pending pod is alive": {
			see: func(s *podStore) []error { return []error{s.Add(pod("a", phase(corev1.PodPending)))} }, want: Alive,
		},
		"a deleted pod is dead": {
			see: func(s *podStore) []error { return []error{s.Add(pod("a")), s.Delete(pod("a"))} }, want: Dead,
		},
		"a pod deleted before it was seen is dead": {
			see: func(s *podStore) []error { return []error{s.Delete(pod("a"))} }, want: Dead,
		},
		"a succeeded pod is dead": {
			see: func(s *podStore) []error {
				return []error{s.Add(pod("a")), s.Update(pod("a", phase(corev1.PodSucceeded)))}
			}, want: Dead,
		},
		"a pod that had failed before the watch began is dead": {
			see: func(s *podStore) []error { return []error{s.Replace([]any{pod("a", phase(corev1.PodFailed))}, "")} }, want: Dead,
		},
		"a terminating pod is alive until its deletion time": {
			see:  func(s *podStore) []error { return []error{s.Add(pod("a", deleted(start.Add(30*time.Second))))} },
			wait: 30 * time.Second, want: Alive,
		},
		"a terminating pod is dead after its deletion time": {
			see:  func(s *podStore) []error { return []error{s.Add(pod("a", deleted(start.Add(30*time.Second))))} },
			wait: 30*time.Second + 1, want: Dead,
		},
		"a deletion time that was brought forward counts": {
			see: func(s *podStore) []error {
				return []error{s.Add(pod("a", deleted(start.Add(30*time.Second)))), s.Update(pod("a", deleted(start)))}
			},
			wait: time.Second, want: Dead,
		},
		"a pod missing from a new list died unseen": {
			see: func(s *podStore) []error {
				return []error{s.Add(pod("a")), s.Replace([]any{pod("b")}, "")}
			}, want: Dead,
		},
		"a new pod of the same name saves nobody": {
			see: func(s *podStore) []error {
				return []error{s.Add(pod("a", named("x"))), s.Replace([]any{pod("b", named("x"))}, "")}
			}, want: Dead,
		},
		"a pod that a new list still has is alive": {
			see: func(s *podStore) []error { return []error{s.Add(pod("a")), s.Replace([]any{pod("a")}, "")} }, want: Alive,
		},
		"a pod that left a metadata-only watch is dead": {
			see: func(s *podStore) []error {
				return []error{s.Add(onlyMetadata(pod("a"))), s.Delete(onlyMetadata(pod("a")))}
			}, want: Dead,
		},
		"a pod that got its label back is alive": {
			see: func(s *podStore) []error {
				return []error{s.Add(pod("a")), s.Delete(pod("a")), s.Add(pod("a"))}
			}, want: Alive,
		},
		"a live pod is unknown once the watch has gone silent": {
			see: func(s *podStore) []error { return []error{s.Add(pod("a"))} }, wait: 71 * time.Second, want: Unknown,
		},
		"a dead pod stays dead although the watch has gone silent": {
			see:  func(s *podStore) []error { return []error{s.Add(pod("a")), s.Delete(pod("a"))} },
			wait: time.Hour, want: Dead,
		},
		"a terminating pod dies although the watch has gone silent": {
			see:  func(s *podStore) []error { return []error{s.Add(pod("a", deleted(start.Add(30*time.Second))))} },
			wait: time.Hour, want: Dead,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, clock := watched(t)
			must(t, tc.see(p.watches[0])...)
			clock.Step(tc.wait)
			if got := p.State("a", clock.Now()); got != tc.want {
				t.Errorf("state = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestSubscribersHearOfEveryDeathOnce(t *testing.T) {
	t.Parallel()
	p, clock := watched(t)
	var heard []string
	cancel := p.Subscribe(func(uid string) {
		if got := p.State(uid, clock.Now()); got != Dead {
			t.Errorf("a subscriber asks about %s and hears %s", uid, got)
		}
		heard = append(heard, uid)
	})
	s := p.watches[0]
	must(t, s.Add(pod("a")), s.Add(pod("b")), s.Add(pod("c")), s.Add(pod("d")))
	must(t, s.Delete(pod("a")), s.Delete(pod("a")))
	must(t, s.Update(pod("b", phase(corev1.PodFailed))), s.Delete(pod("b")))
	must(t, s.Replace([]any{pod("d"), pod("e", phase(corev1.PodSucceeded))}, ""))
	cancel()
	must(t, s.Delete(pod("d")))
	slices.Sort(heard)
	if diff := cmp.Diff([]string{"a", "b", "c", "e"}, heard); diff != "" {
		t.Errorf("deaths announced (-want +got):\n%s", diff)
	}
}

// Not parallel: other tests' allocations would be counted.
func TestStateAllocatesNothing(t *testing.T) {
	p, clock := watched(t)
	must(t, p.watches[0].Add(pod("a")))
	now := clock.Now()
	if got := testing.AllocsPerRun(100, func() { p.State("a", now); p.State("b", now) }); got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}

func TestMemoryOfTheDeadIsBounded(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	p, err := newPods(Options{Clock: clock, MaxDead: 10}, source{})
	must(t, err)
	for i := range 1000 {
		must(t, p.watches[0].Add(pod(strconv.Itoa(i))), p.watches[0].Delete(pod(strconv.Itoa(i))))
	}
	if live, dead := p.Count(); live != 0 || dead != 10 {
		t.Errorf("%d live and %d dead, want 0 and 10", live, dead)
	}
}

func BenchmarkPodState(b *testing.B) {
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	p, err := newPods(Options{Clock: clock}, source{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 200 {
		_ = p.watches[0].Add(pod("6a1f9cde-7d4c-4f6f-9d3e-" + strconv.Itoa(100000+i)))
	}
	uid, now := "6a1f9cde-7d4c-4f6f-9d3e-100042", clock.Now()
	b.ReportAllocs()
	for b.Loop() {
		p.State(uid, now)
	}
}
