package forward

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
	"github.com/lanyard-k8s/lanyard/internal/tokenfile"
)

// Options say where to. Either Socket or Address must be given.
type Options struct {
	// Socket is the path of a Unix socket.
	Socket string
	// Address is host:port, which is spoken to over TLS alone.
	Address string
	// CAFile holds the certificates that the other side's is checked against, in PEM; it is read for each connection. It must be
	// given with Address.
	CAFile string
	// ServerName is the name that the other side's certificate must bear; empty means Address's host.
	ServerName string
	// TokenFile holds the token to present; it is read for each call. It must be given with Address.
	TokenFile string
}

// timeoutsInARow is after how many calls without an answer the connection is made anew. A peer that vanished without a
// word would otherwise be waited for as long as the kernel repeats itself, a quarter of an hour.
const timeoutsInARow = 3

// Sink forwards over one connection.
type Sink struct {
	o    Options
	dial func() (*grpc.ClientConn, error)

	mu       sync.Mutex
	conn     *grpc.ClientConn
	timeouts int
	closed   bool
}

// New returns a sink. It does not connect yet: the other side may come later.
func New(o Options) (*Sink, error) {
	s := &Sink{o: o}
	switch {
	case o.Socket != "" && o.Address == "":
		s.dial = func() (*grpc.ClientConn, error) { return dialSocket(o.Socket) }
	case o.Address != "" && o.Socket == "":
		if o.CAFile == "" || o.TokenFile == "" {
			return nil, errors.New("forward sink: an address needs a CA file and a token file")
		}
		verify, err := newVerifier(o)
		if err != nil {
			return nil, err
		}
		s.dial = func() (*grpc.ClientConn, error) { return dialTLS(o.Address, verify) }
	default:
		return nil, errors.New("forward sink: either a socket or an address must be given")
	}
	var err error
	s.conn, err = s.dial()
	return s, err
}

// Name is sink.Forward.
func (s *Sink) Name() sink.Name { return sink.Forward }

// Close ends the connection; calls that are under way fail.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.conn.Close()
}

// Deliver sends the batch, in several calls if the other side would not take it in one.
func (s *Sink) Deliver(ctx context.Context, b sink.Batch) (sink.Report, error) {
	if b.Scope != nodebinding.NodeLocal && b.Scope != "" { // without node binding nobody has decided; the other side does
		return sink.Report{sink.RefusedNode: len(b.Events)}, sink.Final(sink.CrossNode, nodebinding.PermissionDenied,
			errors.New("the batch is of a caller that may name other nodes; its publisher must send it to the deployment connector"))
	}
	if len(b.Events) == 0 {
		return nil, nil
	}
	key, err := keyOf(b)
	if err != nil {
		return nil, sink.Final(sink.Refused, nodebinding.InvalidArgument, err)
	}
	report := sink.Report{}
	err = s.parts(ctx, split(b.Events, messageMost), func(i int) string { return partKey(key, i) }, report)
	return report, err
}

// parts sends one part after the other. It stops at an error that passes: parts that were sent are known by their keys when
// they are sent again. Parts that are refused for good hold up no others.
func (s *Sink) parts(ctx context.Context, parts [][]*healtheventv1.HealthEvent, key func(int) string, report sink.Report) error {
	var refused error
	for i, events := range parts {
		err := s.part(ctx, key(i), events, report)
		if e := sink.Classify(err); e != nil && !e.Final {
			return err
		}
		refused = errors.Join(refused, err)
	}
	return refused
}

// part sends events in one call, and in halves where the other side takes no call of that size. An event that is too large
// by itself is refused for good: offered again it would hold up its publisher's batches for ever.
func (s *Sink) part(ctx context.Context, key string, events []*healtheventv1.HealthEvent, report sink.Report) error {
	err := s.send(ctx, key, events)
	switch e := sink.Classify(err); {
	case e == nil:
		report[sink.Written] += len(events)
	case e.Reason == sink.TooLarge && len(events) > 1:
		half := len(events) / 2
		halves := [][]*healtheventv1.HealthEvent{events[:half], events[half:]}
		return s.parts(ctx, halves, func(i int) string { return key + "-" + strconv.Itoa(i) }, report)
	case e.Final:
		report[sink.RefusedByServer] += len(events)
	}
	return err
}

// send makes one call.
func (s *Sink) send(ctx context.Context, key string, events []*healtheventv1.HealthEvent) error {
	pairs := []string{"idempotency-key", key}
	token := ""
	if s.o.TokenFile != "" {
		var err error
		if token, err = tokenfile.Read(s.o.TokenFile); err != nil {
			return sink.Retry(sink.Credential, err)
		}
		pairs = append(pairs, "authorization", "Bearer "+token)
	}
	conn, err := s.current()
	if err != nil {
		return err
	}
	out := metadata.NewOutgoingContext(ctx, metadata.Pairs(pairs...))
	_, err = healtheventv1.NewPlatformConnectorClient(conn).HealthEventOccurredV1(out, &healtheventv1.HealthEvents{Version: 1, Events: events})
	s.answered(conn, status.Code(err))
	return classify(err, token)
}

func (s *Sink) current() (*grpc.ClientConn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, sink.Retry(sink.Unreachable, errors.New("the sink is closed"))
	}
	return s.conn, nil
}

// answered counts calls without an answer, and makes the connection anew when there were too many in a row.
func (s *Sink) answered(conn *grpc.ClientConn, code codes.Code) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if code != codes.DeadlineExceeded {
		s.timeouts = 0
		return
	}
	s.timeouts++
	if s.timeouts < timeoutsInARow || s.closed || conn != s.conn {
		return
	}
	if fresh, err := s.dial(); err == nil {
		_ = conn.Close()
		s.conn, s.timeouts = fresh, 0
	}
}
