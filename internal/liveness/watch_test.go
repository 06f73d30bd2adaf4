package liveness

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/lanyard-k8s/lanyard/test/timing"
)

// script is a source that a test holds the other end of.
type script struct {
	mu      sync.Mutex
	options []metav1.ListOptions
	watches chan *watch.FakeWatcher
	items   []metav1.PartialObjectMetadata
	err     error
}

// unstreamed tells the reflector to list and then watch.
type unstreamed struct{}

func (unstreamed) IsWatchListSemanticsUnSupported() bool { return true }

func (s *script) source() source {
	return source{
		list: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: s.items}, s.err
		},
		watch: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.options = append(s.options, o)
			if s.err != nil {
				return nil, s.err
			}
			w := watch.NewFake()
			s.watches <- w
			return w, nil
		},
		selects: func(o *metav1.ListOptions) { o.LabelSelector = "chosen" },
		client:  unstreamed{},
		object:  &metav1.PartialObjectMetadata{},
	}
}

// run runs Pods until the test ends, and then waits for it.
func run(t *testing.T, p *Pods) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); timing.Next(t, time.Minute, "the watch ends with its context", done) })
}

func TestWatchIsListenedTo(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	s := &script{watches: make(chan *watch.FakeWatcher, 8), items: []metav1.PartialObjectMetadata{*onlyMetadata(pod("a"))}}
	p, err := newPods(Options{Clock: clock}, s.source())
	must(t, err)
	run(t, p)
	w := timing.Next(t, time.Minute, "a watch is opened", s.watches)
	state := func(uid string) State { return p.State(uid, clock.Now()) }
	timing.Within(t, time.Minute, "the listed pod is alive", func() bool { return state("a") == Alive })

	if !p.Trusted(clock.Now()) {
		t.Error("listed, and not trusted")
	}

	clock.Step(64 * time.Second)
	w.Action(watch.Bookmark, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "2"}})
	timing.Within(t, time.Minute, "the bookmark was heard", func() bool { return p.Age(clock.Now()) == 0 })
	clock.Step(64 * time.Second)
	if got := state("a"); got != Alive {
		t.Errorf("state within a minute of a bookmark = %s", got)
	}
	clock.Step(time.Second)
	w = timing.Next(t, time.Minute, "a watch whose bookmark is late is opened again", s.watches)
	timing.Within(t, time.Minute, "a watch whose bookmark is late was opened again", func() bool { return p.Age(clock.Now()) == 0 })
	b := onlyMetadata(pod("b"))
	b.ResourceVersion = "3"
	w.Add(b)
	timing.Within(t, time.Minute, "the new watch is read", func() bool { return state("a") == Alive && state("b") == Alive })

	s.mu.Lock()
	s.err = errors.New("the API server is down")
	opened := len(s.options)
	s.mu.Unlock()
	clock.Step(65 * time.Second)
	timing.Within(t, time.Minute, "the silent watch was tried again", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.options) > opened
	})
	if got := state("a"); got != Alive {
		t.Errorf("state with a bookmark late by five seconds = %s", got)
	}
	clock.Step(5*time.Second + 1)
	if got := state("a"); got != Unknown || p.Trusted(clock.Now()) {
		t.Errorf("state with a bookmark late by ten seconds = %s, trusted %t", got, p.Trusted(clock.Now()))
	}

	s.mu.Lock()
	s.err, s.items = nil, nil
	s.mu.Unlock()
	w = timing.Next(t, time.Minute, "a watch is opened once the API server is back", s.watches)
	b.ResourceVersion = "4"
	w.Delete(b)
	timing.Within(t, time.Minute, "the next watch tells what the first would have", func() bool { return state("b") == Dead })
	timing.Within(t, time.Minute, "trust came back", func() bool { return p.Trusted(clock.Now()) })

	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.options {
		if !o.AllowWatchBookmarks || o.LabelSelector != "chosen" {
			t.Errorf("watch options %+v, want bookmarks and the selector", o)
		}
	}
}

func TestStoppingAWatchThatNobodyReads(t *testing.T) {
	t.Parallel()
	inner := watch.NewFakeWithChanSize(1, false)
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	e := listen(inner, &pulse{}, clock)
	inner.Add(onlyMetadata(pod("a")))
	e.Stop()
	e.Stop()
}
