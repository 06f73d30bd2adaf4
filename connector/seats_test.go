package connector

import (
	"bytes"
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/api/healthevent/weight"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

// verbatim sends bytes as they are.
type verbatim struct{}

func (verbatim) Name() string                         { return "proto" }
func (verbatim) Unmarshal(mem.BufferSlice, any) error { return nil }
func (verbatim) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// sendBytes makes a call with these bytes for a message.
func (g *rig) sendBytes(t *testing.T, raw []byte) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return g.conn.Invoke(ctx, healtheventv1.PlatformConnector_HealthEventOccurredV1_FullMethodName, raw, &emptypb.Empty{}, grpc.ForceCodecV2(verbatim{}))
}

// encodedEvent is an event with these fields, as a field of a batch.
func encodedEvent(fields ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), bytes.Join(fields, nil))
}

func encodedField(n protowire.Number, body string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), body)
}

// TestT27TheCostOfOneMessage is T27: one call takes no more memory than its bounds and its seat say, whatever is in its four megabytes. Two
// million empty events, which took 588 MiB, are refused before they are decoded. It is not parallel: others would be measured along.
func TestT27TheCostOfOneMessage(t *testing.T) {
	const size = 4 << 20
	long := encodedField(7, strings.Repeat("x", size/weight.DefaultEvents-40))
	for name, tc := range map[string]struct {
		raw  []byte
		want string // of the refusal; empty if it is taken
	}{
		"two million empty events":         {bytes.Repeat(encodedEvent(), size/2), "events: a batch may have at most 2048 events (limits.maxEvents)"},
		"two million empty codes":          {encodedEvent(bytes.Repeat(encodedField(9, ""), size/2-10)), "events[0].errorCode: a batch may have at most 16384 "},
		"a million entities, in one event": {encodedEvent(bytes.Repeat(encodedField(10, "\x0a\x00"), size/4-10)), "events[0].entitiesImpacted: "},
		"half a million empty members":     {encodedEvent(bytes.Repeat(encodedField(11, ""), size/2-10)), "events[0].metadata: "},
		"bytes that are no batch":          {bytes.Repeat([]byte{0x07}, size), "no batch of health events"},
		"as many events as may be, long":   {bytes.Repeat(encodedEvent(long), weight.DefaultEvents), ""},
		"events and parts, long": {bytes.Repeat(encodedEvent(encodedField(7, strings.Repeat("x", 1800)), encodedField(11, ""),
			bytes.Repeat(encodedField(10, "\x0a\x02ab\x12\x02cd"), 7)), weight.DefaultEvents), ""},
		"one long text": {encodedEvent(encodedField(7, strings.Repeat("x", size-100))), ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, nodebinding.Socket)
			g.intake.hold = make(chan struct{})
			must(t, g.sendBytes(t, nil)) // the connection is there
			before := heap()
			ended := make(chan error, 1)
			go func() { ended <- g.sendBytes(t, tc.raw) }()
			var answer error
			answered := false
			eventually(t, "the call is being kept or has been answered", func() bool {
				select {
				case answer = <-ended:
					answered = true
				default:
				}
				return answered || g.intake.waiting.Load() == 1
			})
			took, seated := heap()-before, g.server.door.seats.now()
			close(g.intake.hold)
			if !answered {
				answer = <-ended
			}
			runtime.KeepAlive(tc.raw)
			t.Logf("%d bytes take %d, counted as %d: %v", len(tc.raw), took, seated, answer)
			if most := (weight.Bounds{}).Most(size) + 2*size; took > most || seated > most {
				t.Errorf("it takes %d bytes and is counted as %d, want at most %d", took, seated, most)
			}
			if tc.want == "" {
				must(t, answer)
				if took > seated {
					t.Errorf("it takes %d bytes and is counted as %d", took, seated)
				}
				return
			}
			wantCode(t, name, answer, codes.InvalidArgument)
			if !strings.Contains(answer.Error(), tc.want) {
				t.Errorf("%v, want %q", answer, tc.want)
			}
			if got := g.counts(t, "lanyard_connector_batches_total")["invalid"]; got != 1 {
				t.Errorf("counted %v as invalid, want 1", got)
			}
			must(t, g.call(t, nil, ""))
		})
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// now is how many bytes are counted.
func (s *seats) now() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}

// TestT27MessagesOnTheirWayAreBounded is T27: calls that never end their messages have as many seats as the bound holds of the
// largest message, whatever streams and connections allow; and their seats come back.
func TestT27MessagesOnTheirWayAreBounded(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Socket, func(s *setup) { s.limits.InFlight = 3 * int64(s.limits.MessageBytes) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 2 { // three quarters of three are two
		_, err := g.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, healtheventv1.PlatformConnector_HealthEventOccurredV1_FullMethodName)
		must(t, err)
	}
	eventually(t, "a third call is turned away", func() bool { return g.call(t, nil, "") != nil })
	wantCode(t, "a third call", g.call(t, nil, ""), codes.Unavailable)
	cancel()
	eventually(t, "there are seats again", func() bool { return g.call(t, nil, "") == nil })
	eventually(t, "nothing is counted", func() bool { return g.server.door.seats.now() == 0 })
}

// TestSeatsAreAsLargeAsWhatCallsTake: what is being worked on counts with what it takes, so that hundreds of usual batches find room where
// five large ones do.
func TestSeatsAreAsLargeAsWhatCallsTake(t *testing.T) {
	t.Parallel()
	text := func(size int) func() *healtheventv1.HealthEvents {
		return func() *healtheventv1.HealthEvents {
			b := batchOf("")
			b.Events[0].Message = strings.Repeat("x", size)
			return b
		}
	}
	for name, tc := range map[string]struct {
		batch func() *healtheventv1.HealthEvents
		fit   int
		more  codes.Code
	}{
		"one event each":      {text(100), 60, codes.OK},
		"a hundred events":    {func() *healtheventv1.HealthEvents { return realistic(100) }, 60, codes.OK},
		"a megabyte each":     {text(1 << 20), 9, codes.Unavailable}, // three and a half times a megabyte, of 32 and a little
		"the largest message": {text(4<<20 - 100), 2, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t, nodebinding.Socket, func(s *setup) { s.limits.InFlight, s.Timeout = 44<<20, 30*time.Second })
			g.intake.hold = make(chan struct{})
			ended := make(chan error, tc.fit+1)
			for i := range tc.fit { // one after the other: each needs a large seat to begin with
				go func() { ended <- g.patient(t, tc.batch()) }()
				eventually(t, "a call is being kept", func() bool { return g.intake.waiting.Load() == int64(i+1) })
			}
			go func() { ended <- g.patient(t, tc.batch()) }()
			if tc.more != codes.OK {
				wantCode(t, "another", <-ended, tc.more)
			} else {
				eventually(t, "another is being kept", func() bool { return g.intake.waiting.Load() == int64(tc.fit+1) })
				ended <- nil
			}
			close(g.intake.hold)
			for range tc.fit + 1 {
				if tc.more == codes.OK {
					must(t, <-ended)
				}
			}
			eventually(t, "every seat is given back", func() bool { return g.server.door.seats.now() == 0 })
		})
	}
}

// patient makes a call that may take half a minute.
func (g *rig) patient(t *testing.T, batch *healtheventv1.HealthEvents) error {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := g.client.HealthEventOccurredV1(ctx, batch)
	return err
}

// TestACallThatIsGivenUpKeepsItsSeatWhileItIsWorkedOn: callers that hang up at once cannot make memory go uncounted.
func TestACallThatIsGivenUpKeepsItsSeatWhileItIsWorkedOn(t *testing.T) {
	t.Parallel()
	s := &seats{most: 100, first: 10}
	ctx, cancel := context.WithCancel(t.Context())
	ctx, err := s.take(ctx)
	must(t, err)
	one, err := begin(ctx)
	must(t, err)
	must(t, one.hold(40))
	cancel()
	eventually(t, "the end of the call is known", func() bool { return ctx.Err() != nil })
	one.abandon() // what the end of the context does
	if got := s.now(); got != 40 {
		t.Errorf("%d bytes are counted, want 40", got)
	}
	one.leave()
	if got := s.now(); got != 0 {
		t.Errorf("%d bytes are still counted", got)
	}
	gone, cancel := context.WithCancel(t.Context())
	gone, err = s.take(gone)
	must(t, err)
	cancel()
	eventually(t, "a seat that nobody began to use is free", func() bool { return s.now() == 0 })
	_, err = begin(gone)
	wantCode(t, "a call that has ended", err, codes.Canceled)
}

// TestTheBoundsAreSettings refuses what a connector with lower bounds does not take, and tells whoever forwards why.
func TestTheBoundsAreSettings(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Socket, func(s *setup) { s.limits.Batch = weight.Bounds{Events: 3, Parts: 2} })
	must(t, g.call(t, nil, "", "", ""))
	err := g.call(t, nil, "", "", "", "")
	wantCode(t, "four events", err, codes.InvalidArgument)
	if len(status.Convert(err).Details()) != 1 || !strings.Contains(err.Error(), "at most 3 events (limits.maxEvents)") {
		t.Errorf("%v with %v", err, status.Convert(err).Details())
	}
	b := batchOf("")
	b.Events[0].ErrorCode = []string{"1", "2", "3"}
	wantCode(t, "three codes", g.send(t, nil, b), codes.InvalidArgument)
}
