package connector

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// lookEvery is how often the socket's path is looked at.
const lookEvery = 5 * time.Second

// keeper holds the socket's path: it binds it, looks whether it still leads here, and binds it again if not.
type keeper struct {
	socket   *UnixSocket
	serve    func(net.Listener) // serves until the listener is closed; must not block
	replaced func()             // counts
	clock    clock.WithTicker
	log      logr.Logger
	held     atomic.Bool
}

// Check says whether publishers find us under the path.
func (k *keeper) Check() error {
	if k.held.Load() {
		return nil
	}
	return errors.New("the socket's path does not lead to this connector")
}

// run binds the path and keeps it until ctx ends; then it takes the file away. The listener stays open for the server to
// close, so that what has connected by then is served.
func (k *keeper) run(ctx context.Context) error {
	bound, err := k.socket.Bind(ctx)
	if err != nil {
		return err
	}
	k.serve(bound)
	k.held.Store(true)
	k.log.Info("listening", "addr", bound.Addr().String())
	ticker := k.clock.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			k.held.Store(false)
			return bound.Unlink()
		case <-ticker.C():
			bound = k.look(ctx, bound)
		}
	}
}

// look binds the path again if it leads elsewhere, and returns the socket that is in use.
func (k *keeper) look(ctx context.Context, bound *Bound) *Bound {
	if bound.Ours() {
		return bound
	}
	if k.held.Swap(false) {
		k.replaced()
		k.log.Error(nil, "the socket's path leads elsewhere; publishers do not reach this connector", "addr", bound.Addr().String())
	}
	next, err := k.socket.Bind(ctx)
	if err != nil {
		k.log.Error(err, "cannot bind the socket again")
		return bound
	}
	k.serve(next)
	k.held.Store(true)
	_ = bound.Close()
	k.log.Info("listening again", "addr", next.Addr().String())
	return next
}
