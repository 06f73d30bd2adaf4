package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/api/healthevent/weight"
	"github.com/lanyard-k8s/lanyard/client/internal/reach"
)

// Options make a Publisher. Target is needed, the rest has defaults.
type Options struct {
	// Target is a socket, "unix:///var/run/nvsentinel.sock", or host:port of a deployment, which is spoken to over TLS.
	Target string
	// TokenFile holds the token to present. A deployment takes no caller without one; a socket pins such a caller to its node.
	TokenFile string
	// CAFile holds the certificates that a deployment's is checked against, and is read for each connection; empty means the system's.
	// ServerName is the name in its certificate, the target's host if empty.
	CAFile     string
	ServerName string
	// ServerUser is the user that a socket's server must run as: 0 by default, or AnyUser.
	ServerUser int64
	// AllowWritableDirectory permits a socket in a directory that this process may write to. It is for development.
	AllowWritableDirectory bool

	// MaxBatches and MaxBytes bound the queue; 1,024 and 64 MiB.
	MaxBatches int
	MaxBytes   int
	// Batch bounds one batch, as connectors do (limits.maxEvents and limits.maxParts in their settings); zero is what they do by
	// default: 2,048 events with 16,384 error codes, entities and members of metadata in all.
	Batch weight.Bounds
	// CallTimeout bounds one attempt; 5 s.
	CallTimeout time.Duration
	// FirstPause and MostPause bound the pause between two attempts, of which half is random; 200 ms and 30 s.
	FirstPause time.Duration
	MostPause  time.Duration
	// Ended is told of batches given to Enqueue; nil error means acknowledged. Retrying is told of answers that are not final.
	// Both may be nil and must not block.
	Ended    func(batch *healtheventv1.HealthEvents, err error)
	Retrying func(err error)
}

const unixScheme = "unix://"

// filled returns the options with their defaults, or what is wrong with them.
func (o Options) filled() (Options, error) {
	fill(&o.MaxBatches, 1024)
	fill(&o.MaxBytes, 64<<20)
	fill(&o.CallTimeout, 5*time.Second)
	fill(&o.FirstPause, 200*time.Millisecond)
	fill(&o.MostPause, 30*time.Second)
	socket, local := strings.CutPrefix(o.Target, unixScheme)
	switch {
	case o.Target == "":
		return o, errors.New("a target is needed: unix:///path/to/socket or host:port")
	case local && !strings.HasPrefix(socket, "/"):
		return o, errors.New("the socket's path must be absolute: unix:///path/to/socket")
	case local && (o.CAFile != "" || o.ServerName != ""):
		return o, errors.New("a socket takes neither a CA file nor a server name")
	case !local && strings.Contains(o.Target, "://"):
		return o, errors.New("the target must be unix:///path/to/socket or host:port without a scheme")
	case min(o.MaxBatches, o.MaxBytes, o.Batch.Events, o.Batch.Parts) < 0 || min(o.CallTimeout, o.FirstPause, o.MostPause) < 0:
		return o, errors.New("bounds and times must be positive")
	}
	if local && !o.AllowWritableDirectory {
		return o, checkDirectory(socket)
	}
	return o, nil
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// dial makes the connection, which is opened with the first call.
func (o Options) dial() (*grpc.ClientConn, error) {
	transport, err := o.transport()
	if err != nil {
		return nil, err
	}
	dial := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: o.FirstPause, Multiplier: 2, Jitter: 0.5, MaxDelay: min(o.MostPause, 5*time.Second)},
			MinConnectTimeout: o.CallTimeout,
		}),
	}
	if o.TokenFile != "" {
		dial = append(dial, grpc.WithPerRPCCredentials(PublisherCredentials(o.TokenFile)))
	}
	target := o.Target
	if !strings.HasPrefix(target, unixScheme) {
		target = "dns:///" + target
	}
	conn, err := grpc.NewClient(target, dial...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", o.Target, err)
	}
	return conn, nil
}

func (o Options) transport() (credentials.TransportCredentials, error) {
	if strings.HasPrefix(o.Target, unixScheme) {
		return SocketCredentials(o.ServerUser), nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.ServerName}
	if o.CAFile == "" {
		return credentials.NewTLS(config), nil
	}
	roots, err := reach.NewRoots(o.CAFile)
	if err != nil {
		return nil, err
	}
	return trusting{credentials.NewTLS(config), config, roots}, nil
}

// trusting are TLS credentials that check each connection's server against the CA file as it is at that moment: a publisher may outlive
// the CA that it started with.
type trusting struct {
	credentials.TransportCredentials // for what asks no file

	config *tls.Config
	roots  *reach.Roots
}

// ClientHandshake does what TLS credentials do.
func (t trusting) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config := t.config.Clone()
	config.RootCAs, _ = t.roots.Look()
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, conn)
}

// Clone makes a copy, which shares the file.
func (t trusting) Clone() credentials.TransportCredentials {
	return trusting{t.TransportCredentials.Clone(), t.config.Clone(), t.roots}
}
