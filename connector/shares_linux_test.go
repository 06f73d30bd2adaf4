package connector

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/internal/places"
)

// calling is the context of a call by a connection, and what ends it.
func calling(t *testing.T, from places.Key) (context.Context, func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	return peer.NewContext(ctx, &peer.Peer{AuthInfo: &connection{user: userOf(from), from: from}}), cancel
}

func address(s string) places.Key { return places.OfAddress(netip.MustParseAddr(s)) }

// seated opens calls of a key until there are as many as it gets, and returns what ends them.
func seated(t *testing.T, s *seats, from places.Key) (ends []func()) {
	t.Helper()
	for {
		ctx, end := calling(t, from)
		if _, err := s.take(ctx); err != nil {
			wantCode(t, "a call over the share", err, codes.Unavailable)
			return ends
		}
		if ends = append(ends, end); len(ends) > 1000 {
			t.Fatal("a thousand calls have seats")
		}
	}
}

// TestT27OneUsersMessagesLeaveSeats is T27: calls of one user, or from one address, that never end their messages leave seats for others.
func TestT27OneUsersMessagesLeaveSeats(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		one, other places.Key
		want, left int
	}{
		"users":                      {places.OfUser(1), places.OfUser(2), 6, 2},
		"root and another":           {places.OfUser(0), places.OfUser(2), 6, 2},
		"addresses":                  {address("10.0.0.1"), address("fd00::1"), 2, 2},
		"an address in both ways":    {address("10.0.0.1"), address("::ffff:10.0.0.1"), 2, 0},
		"where nobody is told apart": {places.Key{}, places.Key{}, 8, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &seats{most: 80, first: 10}
			ends := seated(t, s, tc.one)
			if len(ends) != tc.want {
				t.Errorf("the first has %d of eight seats, want %d", len(ends), tc.want)
			}
			others := seated(t, s, tc.other)
			if len(others) != tc.left {
				t.Errorf("the other has %d, want %d", len(others), tc.left)
			}
			for _, end := range append(ends, others...) {
				end()
			}
			eventually(t, "the seats are free", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.taken == 0 && len(s.by) == 0
			})
		})
	}
}

// TestTheOneCallOfAnAddressMayBeLargerThanItsShare, and counts as what it takes: else nobody could send the largest batch, or it would
// take more memory than is counted.
func TestTheOneCallOfAnAddressMayBeLargerThanItsShare(t *testing.T) {
	t.Parallel()
	s := &seats{most: 80, first: 30}
	ctx, end := calling(t, address("10.0.0.1"))
	defer end()
	ctx, err := s.take(ctx)
	must(t, err)
	one, err := begin(ctx)
	must(t, err)
	must(t, one.hold(50))
	if got := s.now(); got != 50 {
		t.Errorf("%d bytes are counted, want 50", got)
	}
	if more := seated(t, s, address("10.0.0.1")); len(more) != 0 {
		t.Errorf("%d more calls of the address have seats, want none", len(more))
	}
	if others := seated(t, s, address("10.0.0.2")); len(others) != 1 {
		t.Errorf("another address has %d, want one", len(others))
	}
	one.leave()
	if more := seated(t, s, address("10.0.0.1")); len(more) != 1 {
		t.Errorf("afterwards the address has %d, want one", len(more))
	}
}

// TestT27OneAddressLeavesSeats is T27: whoever opens calls over one connection to a deployment, with what looks like a token, and never ends
// their messages, keeps no other address out. Their own address's next call is told to try again.
func TestT27OneAddressLeavesSeats(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Deployment, func(s *setup) { s.limits.InFlight, s.Timeout = 16*int64(s.limits.MessageBytes), 30*time.Second })
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), keyAuthorization, bearer(minted(2))[0]))
	token := bearer(g.backend.of(identity{monitor, "pod-1", own, ownUID}))
	// A call may take ten seconds for its message; the attack renews those that have ended.
	var attack sync.WaitGroup
	defer attack.Wait()
	defer cancel()
	attack.Go(func() {
		for ctx.Err() == nil {
			_, _ = g.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, healtheventv1.PlatformConnector_HealthEventOccurredV1_FullMethodName)
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	eventually(t, "the address has its share", func() bool { return g.server.door.seats.now() >= 4*int64(g.limits.MessageBytes) })
	eventually(t, "its next call is turned away", func() bool {
		return status.Code(g.call(t, token, own)) == codes.Unavailable
	})
	elsewhere := g.dial(t, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}}).DialContext(ctx, "tcp", addr)
	}))
	asked, end := context.WithTimeout(t.Context(), 30*time.Second)
	defer end()
	asked = metadata.AppendToOutgoingContext(asked, keyAuthorization, token[0], keyIdempotency, "key-2")
	_, err := healtheventv1.NewPlatformConnectorClient(elsewhere).HealthEventOccurredV1(asked, batchOf(own))
	must(t, err)
	cancel()
	eventually(t, "the seats are free", func() bool { return g.server.door.seats.now() == 0 })
}
