package liveness

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestLook is about pods that no watch shows: whether they run is asked, and who does not is remembered.
func TestLook(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	away := errors.New("connection refused")
	for name, tc := range map[string]struct {
		found []*corev1.Pod
		err   error
		want  State
		then  State // what State says afterwards
	}{
		"it runs":                        {[]*corev1.Pod{pod("a")}, nil, Alive, Unknown},
		"it has ended, or is gone":       {nil, nil, Dead, Dead},
		"another runs under its name":    {[]*corev1.Pod{pod("b", named("name-of-a"))}, nil, Dead, Dead},
		"it is terminating":              {[]*corev1.Pod{pod("a", deleted(start.Add(time.Minute)))}, nil, Alive, Unknown},
		"it is past its deletion time":   {[]*corev1.Pod{pod("a", deleted(start.Add(-time.Second)))}, nil, Dead, Dead},
		"the API server cannot be asked": {nil, away, Unknown, Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, clock := watched(t)
			p.find = func(_ context.Context, namespace, name string) (runtime.Object, error) {
				if namespace != "ns" || name != "name-of-a" {
					t.Errorf("looked for %s/%s", namespace, name)
				}
				list := &metav1.PartialObjectMetadataList{}
				for _, one := range tc.found {
					list.Items = append(list.Items, *onlyMetadata(one))
				}
				return list, tc.err
			}
			got, err := p.Look(t.Context(), "ns", "name-of-a", "a")
			if got != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("%s, %v; want %s, %v", got, err, tc.want, tc.err)
			}
			if got := p.State("a", clock.Now()); got != tc.then {
				t.Errorf("afterwards it is %s, want %s", got, tc.then)
			}
		})
	}
	t.Run("without a right to look", func(t *testing.T) {
		t.Parallel()
		p, _ := watched(t)
		if got, err := p.Look(t.Context(), "ns", "n", "a"); got != Unknown || err != nil {
			t.Errorf("%s, %v", got, err)
		}
	})
	t.Run("a pod that a watch has shown meanwhile is left to it", func(t *testing.T) {
		t.Parallel()
		p, clock := watched(t)
		p.find = func(context.Context, string, string) (runtime.Object, error) {
			must(t, p.watches[0].Add(pod("a")))
			return &metav1.PartialObjectMetadataList{}, nil
		}
		_, err := p.Look(t.Context(), "ns", "n", "a")
		must(t, err)
		if got := p.State("a", clock.Now()); got != Alive {
			t.Errorf("it is %s", got)
		}
	})
}

// TestAnEndedPodIsDeadForAsLongAsItIsShown: its token may live for a hundred years, and reviews accept it for as long as the object is kept.
// Graves are forgotten after a day, and when there are too many.
func TestAnEndedPodIsDeadForAsLongAsItIsShown(t *testing.T) {
	t.Parallel()
	p, clock := watched(t)
	p.dead.most = 2
	s := p.watches[0]
	heard := 0
	p.Subscribe(func(uid string) {
		if uid == "a" || uid == "b" {
			heard++
		}
	})
	must(t, s.Add(pod("a")), s.Update(pod("a", phase(corev1.PodSucceeded))))
	must(t, s.Replace([]any{pod("a", phase(corev1.PodSucceeded)), pod("b", phase(corev1.PodFailed))}, ""))
	for _, uid := range []string{"1", "2", "3", "4"} {
		must(t, s.Add(pod(uid)), s.Delete(pod(uid)))
	}
	clock.Step(49 * 24 * time.Hour)
	must(t, s.Add(pod("5")), s.Delete(pod("5"))) // forgets whoever has been dead for long
	for _, uid := range []string{"a", "b"} {
		if got := p.State(uid, clock.Now()); got != Dead {
			t.Errorf("%s is %s after 49 days, want dead", uid, got)
		}
	}
	if got := p.State("1", clock.Now()); got != Unknown {
		t.Errorf("a deleted pod is %s, want forgotten", got)
	}
	must(t, s.Delete(pod("a", phase(corev1.PodSucceeded))), s.Replace(nil, ""))
	for _, uid := range []string{"a", "b"} {
		if got := p.State(uid, clock.Now()); got != Dead {
			t.Errorf("%s is %s after its object went, want dead for another day", uid, got)
		}
	}
	if live, dead := p.Count(); live != 0 || dead != 2 || len(p.ended) != 0 {
		t.Errorf("%d live, %d dead, %d that have ended; want none, two and none", live, dead, len(p.ended))
	}
	if heard != 2 {
		t.Errorf("%d deaths were announced, want each once", heard)
	}
}
