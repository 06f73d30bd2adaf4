package liveness

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
	"k8s.io/utils/clock"
)

// source is where a watch comes from.
type source struct {
	// namespace is the one that it covers; empty for all of them, and for what has none.
	namespace string

	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	// selects adds the selectors to the options of either.
	selects func(*metav1.ListOptions)
	// client tells the reflector whether it is a fake that cannot stream lists.
	client any
	// object is an empty object of the watched type.
	object runtime.Object
}

// listened is a source whose every sign of life is noted in a pulse. It is what the reflector reads from.
type listened struct {
	source
	pulse *pulse
	clock clock.Clock
}

// retry is how soon a broken watch is opened again; the reflector's own way waits for up to half a minute.
func retry() *wait.Backoff {
	return &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 5, Cap: 5 * time.Second}
}

// mirror keeps a store up to date until ctx ends. Everything it starts has ended when it returns.
func mirror(ctx context.Context, name string, s listened, store cache.ReflectorStore, log logr.Logger) {
	options := cache.ReflectorOptions{Logger: &log, Name: name, Backoff: retry()}
	cache.NewReflectorWithOptions(s, s.object, store, options).RunWithContext(logr.NewContext(ctx, log))
}

// List and Watch are for interfaces that know no context; the reflector uses the others.
func (s listened) List(o metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), o)
}

func (s listened) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), o)
}

// ListWithContext reads everything there is.
func (s listened) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	s.selects(&o)
	return s.list(ctx, o)
}

// WatchWithContext opens a watch and listens to it.
func (s listened) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	s.selects(&o)
	o.AllowWatchBookmarks = true
	w, err := s.watch(ctx, o)
	if err != nil {
		s.pulse.closed(s.clock.Now())
		return nil, err
	}
	s.pulse.opened(s.clock.Now())
	return listen(w, s.pulse, s.clock), nil
}

// IsWatchListSemanticsUnSupported passes on what a fake client says of itself.
func (s listened) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(s.client)
}

// ear stands between a watch and its reader and notes what passes.
type ear struct {
	inner  watch.Interface
	result chan watch.Event
	quit   chan struct{}
	stop   context.CancelFunc
}

func listen(inner watch.Interface, p *pulse, c clock.Clock) *ear {
	ctx, stop := context.WithCancel(context.Background())
	e := &ear{inner: inner, result: make(chan watch.Event), quit: make(chan struct{}), stop: stop}
	go func() {
		defer close(e.quit)
		defer close(e.result)
		defer func() { p.closed(c.Now()) }()
		defer inner.Stop()
		e.pass(ctx, p, c)
	}()
	return e
}

// pass hands events on until the watch ends, is stopped, or has been silent for too long.
func (e *ear) pass(ctx context.Context, p *pulse, c clock.Clock) {
	silence := c.NewTimer(bookmarkEvery + reopenAfter)
	defer silence.Stop()
	for {
		select {
		case event, ok := <-e.inner.ResultChan():
			if !ok {
				return
			}
			if event.Type != watch.Error {
				p.heard(c.Now())
			}
			silence.Reset(bookmarkEvery + reopenAfter)
			select {
			case e.result <- event:
			case <-ctx.Done():
				return
			}
		case <-silence.C():
			return // the reflector opens the watch again from the last version that it has seen
		case <-ctx.Done():
			return
		}
	}
}

// Stop ends the watch; the listening goroutine has ended when it returns.
func (e *ear) Stop() {
	e.stop()
	e.inner.Stop()
	<-e.quit
}

// ResultChan is where the events arrive.
func (e *ear) ResultChan() <-chan watch.Event { return e.result }
