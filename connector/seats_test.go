package connector

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

// TestT27MessagesOnTheirWayAreBounded is T27: calls that never end their messages take no more memory than there are seats
// for, whatever streams and connections allow; and their seats come back.
func TestT27MessagesOnTheirWayAreBounded(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Socket, func(s *setup) { s.limits.Seats = 2 })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 2 {
		_, err := g.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, healtheventv1.PlatformConnector_HealthEventOccurredV1_FullMethodName)
		must(t, err)
	}
	eventually(t, "a third call is turned away", func() bool { return g.call(t, nil, "") != nil })
	wantCode(t, "a third call", g.call(t, nil, ""), codes.Unavailable)
	cancel()
	eventually(t, "there are seats again", func() bool { return g.call(t, nil, "") == nil })
}

func TestSeatsAreKeptByLargeMessagesAlone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		size int
		want codes.Code
	}{
		"small messages":  {1 << 10, codes.OK},
		"large messages":  {smallMessage + 1, codes.Unavailable},
		"in between them": {smallMessage - 100, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t, nodebinding.Socket, func(s *setup) { s.limits.Seats = 2 })
			g.intake.hold = make(chan struct{})
			batch := func() *healtheventv1.HealthEvents {
				b := batchOf("")
				b.Events[0].Message = strings.Repeat("x", tc.size)
				return b
			}
			before := g.intake.waiting.Load()
			ended := make(chan error, 2)
			for range 2 {
				go func() { ended <- g.send(t, nil, batch()) }()
			}
			eventually(t, "two calls are being kept", func() bool { return g.intake.waiting.Load() == before+2 })
			third := make(chan error, 1)
			go func() { third <- g.send(t, nil, batch()) }()
			if tc.want != codes.OK {
				wantCode(t, "a third", <-third, tc.want)
			} else {
				eventually(t, "a third is being kept", func() bool { return g.intake.waiting.Load() == before+3 })
			}
			close(g.intake.hold)
			must(t, <-ended)
			must(t, <-ended)
			if tc.want == codes.OK {
				must(t, <-third)
			}
		})
	}
}
