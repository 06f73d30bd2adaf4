//go:build unix

package integration

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// replica is one process of the webhook.
type replica struct{ addr, ready string }

// isReady asks a replica whether it is.
func (r replica) isReady(ctx context.Context) bool {
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, r.ready, nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		return false
	}
	return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
}

// service stands for a Service and its endpoints: one address, whose new connections go to a ready replica, as the last
// look has found it. Connections that exist stay where they are, as with kube-proxy.
type service struct {
	listener net.Listener
	taken    atomic.Int64

	mu       sync.Mutex
	replicas []replica
	ready    []replica
}

// lookInterval is how long endpoints may be out of date.
const lookInterval = 200 * time.Millisecond

func newService(t *testing.T) *service {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{listener: listener}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { s.watch(ctx) })
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.taken.Add(1)
			all.Go(func() { s.carry(ctx, conn) })
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		all.Wait()
	})
	return s
}

func (s *service) url() string { return "https://" + s.listener.Addr().String() }

func (s *service) add(r replica) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicas = append(s.replicas, r)
}

// sendsTo says whether new connections may go to a replica.
func (s *service) sendsTo(r replica) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.ready, r)
}

// watch looks at every replica again and again.
func (s *service) watch(ctx context.Context) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		s.mu.Lock()
		all := slices.Clone(s.replicas)
		s.mu.Unlock()
		ready := slices.DeleteFunc(all, func(r replica) bool { return !r.isReady(ctx) })
		s.mu.Lock()
		s.ready = ready
		s.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// carry carries a connection to a ready replica and back until either side closes it, or the test ends.
func (s *service) carry(ctx context.Context, near net.Conn) {
	defer near.Close()
	s.mu.Lock()
	ready := s.ready
	s.mu.Unlock()
	if len(ready) == 0 {
		return
	}
	far, err := net.Dial("tcp", ready[int(s.taken.Load())%len(ready)].addr)
	if err != nil {
		return
	}
	defer far.Close()
	defer context.AfterFunc(ctx, func() { _, _ = near.Close(), far.Close() })()
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			// Half a close is passed on, so that an answer on its way is not cut off.
			_ = way[0].(*net.TCPConn).CloseWrite()
			done <- struct{}{}
		}()
	}
	<-done
	<-done
}
