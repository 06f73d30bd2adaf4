package connector

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"k8s.io/utils/clock"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/api/healthevent/weight"
	"github.com/lanyard-k8s/lanyard/internal/places"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// Limits bound what one caller can ask of the server. All of them must be given.
type Limits struct {
	MessageBytes int
	HeaderBytes  uint32
	Streams      uint32
	Connections  int64
	// PerUser bounds the connections of one user of a Unix socket, so that nobody can lock the others out. An address may have a
	// quarter of Connections.
	PerUser       int64
	ConnectionAge time.Duration // 0 for never
	Request       time.Duration
	// InFlight bounds what messages take of the memory, in bytes: those on their way, each of which may become as large as
	// MessageBytes, and those that are worked on, by what they have turned out to be.
	InFlight int64
	// Batch bounds the events of a call and their parts; zero is the default.
	Batch weight.Bounds
}

// The server's habits that nobody needs to set.
const (
	// handshakeIn is what a new connection may take until it speaks HTTP/2, TLS included.
	handshakeIn = 5 * time.Second
	// A client may ping this often, calls or not; the server asks whether a silent client is still there.
	pingLeast  = 10 * time.Second
	aliveEvery = time.Minute
	aliveIn    = 20 * time.Second
	idleAfter  = 15 * time.Minute
	// bufferBytes keeps 100,000 idle connections small.
	bufferBytes = 8 << 10
)

// ServerOptions make a Server.
type ServerOptions struct {
	Desk   *Desk
	Limits Limits
	// TLS is nil on a Unix socket, and for plain text.
	TLS *tls.Config
	// NewBucket makes the bucket of failed tokens of a connection; nil for none.
	NewBucket func() *tokenreview.Bucket
	// Drain is how long calls that have begun may go on when the server is told to stop.
	Drain   time.Duration
	Metrics *Metrics
	Log     logr.Logger
	Clock   clock.WithTicker
}

// Server serves a Desk and the health protocol, and nothing else.
type Server struct {
	o        ServerOptions
	grpc     *grpc.Server
	door     *door
	health   *health.Server
	places   *places.Places
	draining atomic.Bool
	serving  sync.WaitGroup
	failed   chan error
	keeper   *keeper
}

// NewServer checks that nothing is missing.
func NewServer(o ServerOptions) (*Server, error) {
	l := o.Limits
	if o.Desk == nil || o.Metrics == nil || l.MessageBytes <= 0 || l.HeaderBytes == 0 || l.Streams == 0 || l.Connections <= 0 || l.Request <= 0 || l.InFlight < int64(l.MessageBytes) {
		return nil, errors.New("connector: a desk, metrics or a limit is missing")
	}
	if o.NewBucket == nil {
		o.NewBucket = func() *tokenreview.Bucket { return nil }
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	s := &Server{o: o, health: health.NewServer(), failed: make(chan error, 1)}
	s.places = places.New(s.bounds(), places.Of, func(open int) { o.Metrics.connections.Set(float64(open)) }, o.Metrics.turnedAway.Inc)
	s.door = newDoor(o.Metrics, o.Log, &seats{most: l.InFlight, first: int64(l.MessageBytes)}, o.Desk.beforehand)
	s.grpc = newGRPC(o, s.door)
	s.grpc.RegisterService(newOpener(l.Batch, o.Metrics, o.Log).describe(), o.Desk)
	healthv1.RegisterHealthServer(s.grpc, s.health)
	s.announce(false)
	return s, nil
}

// bounds are how many connections may be open. A server has a Unix socket or an address.
func (s *Server) bounds() places.Bounds {
	b := places.Share(int(s.o.Limits.Connections))
	if s.o.Limits.PerUser > 0 {
		b.PerKey = int(s.o.Limits.PerUser)
	}
	return b
}

func newGRPC(o ServerOptions, d *door) *grpc.Server {
	l := o.Limits
	alive := keepalive.ServerParameters{Time: aliveEvery, Timeout: aliveIn, MaxConnectionIdle: idleAfter}
	if l.ConnectionAge > 0 {
		// The grace lets every call that has begun come to its end.
		alive.MaxConnectionAge, alive.MaxConnectionAgeGrace = l.ConnectionAge, l.Request+time.Second
	}
	return grpc.NewServer(
		grpc.Creds(newTransport(o.TLS, o.NewBucket)),
		grpc.UnaryInterceptor(d.interceptUnary), grpc.StreamInterceptor(d.interceptStream), grpc.UnknownServiceHandler(d.strangers),
		grpc.InTapHandle(d.knock), grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(l.MessageBytes), grpc.MaxHeaderListSize(l.HeaderBytes), grpc.MaxConcurrentStreams(l.Streams),
		grpc.ConnectionTimeout(handshakeIn), grpc.KeepaliveParams(alive),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingLeast, PermitWithoutStream: true}),
		grpc.ReadBufferSize(bufferBytes), grpc.WriteBufferSize(bufferBytes), grpc.WaitForHandlers(true),
	)
}

// announce tells health clients whether batches are taken.
func (s *Server) announce(serving bool) {
	state := healthv1.HealthCheckResponse_NOT_SERVING
	if serving {
		state = healthv1.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus("", state)
	s.health.SetServingStatus(healtheventv1.PlatformConnector_ServiceDesc.ServiceName, state)
}

// Check says why batches cannot reach the desk: the server is draining, or the socket's path does not lead here.
func (s *Server) Check() error {
	if s.draining.Load() {
		return errors.New("draining")
	}
	if s.keeper != nil {
		return s.keeper.Check()
	}
	return nil
}

// serve takes a listener into service.
func (s *Server) serve(l net.Listener) {
	bound := s.places.Bound(l)
	s.serving.Go(func() {
		if err := s.grpc.Serve(bound); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, grpc.ErrServerStopped) {
			select {
			case s.failed <- fmt.Errorf("serve health events: %w", err):
			default:
			}
		}
	})
}

// RunTCP serves a listener until ctx ends and everything is drained.
func (s *Server) RunTCP(ctx context.Context, l net.Listener) error {
	s.serve(l)
	s.announce(true)
	s.o.Log.Info("listening", "addr", l.Addr().String())
	var err error
	select {
	case <-ctx.Done():
	case err = <-s.failed:
	}
	s.drain()
	return err
}

// UseSocket says which socket RunSocket will serve, so that Check knows of it before.
func (s *Server) UseSocket(u *UnixSocket) {
	s.keeper = &keeper{socket: u, serve: s.serve, replaced: s.o.Metrics.rebinds.Inc, clock: s.o.Clock, log: s.o.Log}
}

// RunSocket serves the socket given to UseSocket until ctx ends and everything is drained. The file goes first.
func (s *Server) RunSocket(ctx context.Context) error {
	if s.keeper == nil {
		return errors.New("connector: no socket is given")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	kept := make(chan error, 1)
	go func() { kept <- s.keeper.run(ctx) }()
	s.announce(true)
	var err error
	select {
	case <-ctx.Done():
		err = <-kept
	case err = <-kept:
	case err = <-s.failed:
		cancel()
		err = errors.Join(err, <-kept)
	}
	s.drain()
	return err
}

// drain lets the calls that have begun come to their end, and cuts what has not within the time for it.
func (s *Server) drain() {
	s.draining.Store(true)
	s.health.Shutdown()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
	}()
	timer := time.NewTimer(s.o.Drain)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		s.o.Log.Info("draining took too long; the rest is cut")
		s.grpc.Stop()
		<-done
	}
	s.serving.Wait()
}
