// Package lifecycle starts the long-running parts of a program in order and stops them in reverse, each one waited for
// before the next is told to stop. So a server can finish its calls while the metrics that count them, and the certificate
// watch that its handshakes need, are still there.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"

	"github.com/lanyard-k8s/lanyard/internal/obs"
)

// Task is one long-running part. Run blocks until its context is cancelled and everything it started has ended; it returns
// nil for an ordered end.
type Task struct {
	Name string
	Run  func(context.Context) error
}

// Run starts the tasks in order and blocks until ctx is cancelled or one task ends. It then stops the others, last started
// first stopped, and returns the first error, named after its task. A task that ends with nil although nobody asked it to
// is an error too, because the program would go on without it.
func Run(ctx context.Context, log logr.Logger, tasks ...Task) error {
	ended := make(chan struct{})
	var once sync.Once
	running := make([]*handle, 0, len(tasks))
	for _, t := range tasks {
		h := start(context.WithoutCancel(ctx), t, func() { once.Do(func() { close(ended) }) })
		running = append(running, h)
	}
	select {
	case <-ctx.Done():
		log.Info("stopping")
	case <-ended:
	}
	asked := ctx.Err() != nil
	var first error
	for i := len(running) - 1; i >= 0; i-- {
		if err := running[i].stop(asked); err != nil && first == nil {
			first = fmt.Errorf("%s: %w", tasks[i].Name, err)
		}
		log.V(1).Info("stopped", obs.KeyTask, tasks[i].Name)
	}
	return first
}

type handle struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

func start(ctx context.Context, t Task, ended func()) *handle {
	ctx, cancel := context.WithCancel(ctx)
	h := &handle{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer ended()
		defer close(h.done)
		h.err = t.Run(ctx)
	}()
	return h
}

// stop cancels the task and waits for it.
func (h *handle) stop(asked bool) error {
	early := false
	if !asked {
		select {
		case <-h.done:
			early = true
		default:
		}
	}
	h.cancel()
	<-h.done
	if early && h.err == nil {
		return errEarly
	}
	return h.err
}

// errEarly is a task that ended by itself without an error.
var errEarly = errors.New("ended although nobody asked it to")

// Delay returns a context that is cancelled d after ctx is. Servers run under it, so that they keep answering while the
// endpoints of a program that is about to end are taken away; first is called before that time begins. The returned
// function releases the context early and waits for first.
func Delay(ctx context.Context, d time.Duration, first func()) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		first()
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-late.Done():
		}
	})
	return late, sync.OnceFunc(func() {
		cancel()
		if !stop() {
			<-done
		}
	})
}

// Signals is cancelled by the first SIGTERM or interrupt. A second one ends the process at once, as it does by default.
func Signals(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
