package liveness

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/lanyard-k8s/lanyard/test/timing"
)

func in(namespace string, s *script) source {
	one := s.source()
	one.namespace = namespace
	return one
}

func (s *script) set(err error, pods ...*corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.items = err, nil
	for _, p := range pods {
		s.items = append(s.items, *onlyMetadata(p))
	}
}

func forbidden() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
}

func TestAForbiddenNamespaceSpoilsNoOther(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	gpu, tools := &script{watches: make(chan *watch.FakeWatcher, 8)}, &script{watches: make(chan *watch.FakeWatcher, 8)}
	gpu.set(nil, pod("a"), pod("b"))
	tools.set(forbidden())
	p, err := newPods(Options{Clock: clock}, in("gpu", gpu), in("tools", tools))
	must(t, err)
	run(t, p)
	state := func(uid string) State { return p.State(uid, clock.Now()) }
	shows := func(what string, trusted bool, untrusted ...string) {
		t.Helper()
		if got := p.Trusted(clock.Now()); got != trusted {
			t.Errorf("%s: trusted %t, want %t", what, got, trusted)
		}
		if diff := cmp.Diff(untrusted, p.Untrusted(clock.Now())); diff != "" {
			t.Errorf("%s: not trusted (-want +got):\n%s", what, diff)
		}
	}
	w := timing.Next(t, time.Minute, "a watch is opened", gpu.watches)
	timing.Within(t, time.Minute, "a pod in the other namespace is alive", func() bool { return state("a") == Alive })
	shows("one is forbidden", false, "pods in tools")
	b := onlyMetadata(pod("b"))
	b.ResourceVersion = "2"
	w.Delete(b)
	timing.Within(t, time.Minute, "a pod in the other namespace is dead", func() bool { return state("b") == Dead })
	if got := state("c"); got != Unknown {
		t.Errorf("a pod in the forbidden namespace is %s", got)
	}
	clock.Step(3 * time.Second)
	if got := p.Age(clock.Now()); got != 3*time.Second {
		t.Errorf("age = %s, want 3s: that of the watch that was heard of", got)
	}

	tools.set(nil, pod("c"))
	timing.Within(t, time.Minute, "a right that is given later counts", func() bool { return state("c") == Alive })
	shows("both are allowed", true)
	if state("a") != Alive {
		t.Error("what one namespace's list lacks has died in another")
	}
}

func TestOneWatchDiesAlone(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	p, err := newPods(Options{Clock: clock}, source{namespace: "a"}, source{namespace: "b"})
	must(t, err)
	a, b := p.watches[0], p.watches[1]
	for _, s := range p.watches {
		s.pulse.opened(clock.Now())
	}
	var heard []string
	p.Subscribe(func(uid string) { heard = append(heard, uid) })
	must(t, a.Replace([]any{pod("1"), pod("2")}, ""), b.Replace([]any{pod("3"), pod("4")}, ""))
	must(t, b.Replace([]any{pod("4")}, ""), a.Delete(pod("1")))
	a.pulse.closed(clock.Now())
	clock.Step(10*time.Second + 1)
	for uid, want := range map[string]State{"1": Dead, "2": Unknown, "3": Dead, "4": Alive} {
		if got := p.State(uid, clock.Now()); got != want {
			t.Errorf("%s is %s, want %s", uid, got, want)
		}
	}
	if diff := cmp.Diff([]string{"3", "1"}, heard); diff != "" {
		t.Errorf("deaths announced (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"pods in a"}, p.Untrusted(clock.Now())); diff != "" {
		t.Errorf("not trusted (-want +got):\n%s", diff)
	}
}

func TestNodePodsAreWatchedByNamespace(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		namespaces []string
		want       []string
	}{
		"of all namespaces at once":       {nil, []string{""}},
		"of some, once each":              {[]string{"tools", "gpu", "tools"}, []string{"gpu", "tools"}},
		"of none, which all stay unknown": {[]string{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, mu, listed := fake.NewClientset(), sync.Mutex{}, []string(nil)
			client.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				mu.Lock()
				defer mu.Unlock()
				listed = append(listed, a.GetNamespace())
				if got := a.(clienttesting.ListAction).GetListRestrictions().Fields.String(); got != "spec.nodeName=node-a" {
					t.Errorf("fields %q", got)
				}
				return true, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
			})
			p, err := NewNodePods(client, "node-a", tc.namespaces, Options{})
			must(t, err)
			run(t, p)
			timing.Within(t, time.Minute, "every watch is synced", func() bool { return p.Trusted(time.Now()) })
			if got := p.State("a", time.Now()); got != Unknown {
				t.Errorf("a pod that nobody saw is %s", got)
			}
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(listed)
			if diff := cmp.Diff(tc.want, listed); diff != "" {
				t.Errorf("listed (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := NewNodePods(fake.NewClientset(), "node-a", []string{"gpu", ""}, Options{}); err == nil || !strings.Contains(err.Error(), "a namespace has no name") {
		t.Errorf(`"", which would be all namespaces: %v`, err)
	}
}
