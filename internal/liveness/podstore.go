package liveness

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

// podStore is one watch of Pods as its reflector sees it: a store to put objects into.
type podStore struct {
	pods   *Pods
	source source
	pulse  pulse
}

// name is for the log.
func (s *podStore) name() string {
	if s.source.namespace == "" {
		return "pods"
	}
	return "pods in " + s.source.namespace
}

// sight is what one object says about its pod.
type sight struct {
	uid      string
	deletion int64
	ended    bool
}

// look reads an object; a metadata-only one has no phase, and its watch shows no pod that has ended.
func look(obj any) (sight, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return sight{}, fmt.Errorf("reading a watched pod: %w", err)
	}
	s := sight{uid: string(m.GetUID())}
	if t := m.GetDeletionTimestamp(); t != nil {
		s.deletion = t.UnixNano()
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		s.ended = pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	}
	return s, nil
}

// Add takes in a pod that is new to the watch.
func (s *podStore) Add(obj any) error { return s.Update(obj) }

// Update takes in a pod that has changed.
func (s *podStore) Update(obj any) error {
	seen, err := look(obj)
	if err != nil {
		return err
	}
	s.change(func(now time.Time) []string {
		if !seen.ended {
			s.pods.live[seen.uid] = life{seen.deletion, &s.pulse}
			delete(s.pods.ended, seen.uid)
			s.pods.dead.dig(seen.uid)
			return nil
		}
		return s.end(seen.uid)
	})
	return nil
}

// Delete takes in a pod that has left the watch: it is gone, has ended, or has lost its label.
func (s *podStore) Delete(obj any) error {
	seen, err := look(obj)
	if err != nil {
		return err
	}
	s.change(func(now time.Time) []string { return s.bury(now, seen.uid) })
	return nil
}

// Replace takes in everything that this watch shows. Whoever it showed alive and is not among it has died unseen while there
// was no watch; a new pod under an old name has another UID and saves nobody. What other watches show is left alone.
func (s *podStore) Replace(objects []any, _ string) error {
	live, ended := make(map[string]int64, len(objects)), map[string]bool{}
	for _, obj := range objects {
		seen, err := look(obj)
		if err != nil {
			return err
		}
		if seen.ended {
			ended[seen.uid] = true
			continue
		}
		live[seen.uid] = seen.deletion
	}
	s.change(func(now time.Time) []string {
		died, gone := s.end(slices.Collect(maps.Keys(ended))...), []string(nil)
		for uid, before := range s.pods.live {
			if _, ok := live[uid]; !ok && before.pulse == &s.pulse {
				gone = append(gone, uid)
			}
		}
		for uid, by := range s.pods.ended {
			if by == &s.pulse && !ended[uid] {
				gone = append(gone, uid)
			}
		}
		for uid, deletion := range live {
			s.pods.dead.dig(uid)
			s.pods.live[uid] = life{deletion, &s.pulse}
			delete(s.pods.ended, uid)
		}
		return append(died, s.bury(now, gone...)...)
	})
	s.pulse.sync(s.pods.options.Clock.Now())
	return nil
}

// end notes pods that the watch shows although they have ended, and returns those for whom that is news. They are dead for as long as they
// are shown: their tokens are accepted by reviews for as long as the objects are kept, and those may live longer than any grave.
func (s *podStore) end(uids ...string) []string {
	died := uids[:0:0]
	for _, uid := range uids {
		delete(s.pods.live, uid)
		if s.pods.ended[uid] == nil && !s.pods.dead.has(uid) {
			died = append(died, uid)
		}
		s.pods.ended[uid] = &s.pulse
	}
	return died
}

// bury moves UIDs from the living, or from those that have ended, to the dead and returns those for whom that is news.
func (s *podStore) bury(now time.Time, uids ...string) []string {
	died := uids[:0:0]
	for _, uid := range uids {
		known := s.pods.ended[uid] != nil
		delete(s.pods.live, uid)
		delete(s.pods.ended, uid)
		if s.pods.dead.bury(uid, now) && !known {
			died = append(died, uid)
		}
	}
	return died
}

// Resync has nothing to do.
func (s *podStore) Resync() error { return nil }

// change alters what is known and then tells the subscribers who has died of it, without the lock, so that they may ask.
func (s *podStore) change(alter func(now time.Time) (died []string)) {
	p := s.pods
	now := p.options.Clock.Now()
	p.mu.Lock()
	died := alter(now)
	subs := make([]func(string), 0, len(p.subs))
	for _, f := range p.subs {
		subs = append(subs, f)
	}
	p.mu.Unlock()
	for _, uid := range died {
		for _, f := range subs {
			f(uid)
		}
	}
}
