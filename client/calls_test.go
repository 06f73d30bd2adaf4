package client_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lanyard-k8s/lanyard/client"
)

// choosy is a gRPC service that takes some tokens. Its one stream ends as Unauthenticated after a first message.
type choosy struct {
	grpc_health_v1.UnimplementedHealthServer
	rejects []int
	seen    chan string
}

func (c *choosy) look(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	token := strings.TrimPrefix(strings.Join(md.Get("authorization"), "|"), "Bearer ")
	c.seen <- token
	for _, n := range c.rejects {
		if token == accessToken(n) {
			return status.Error(codes.Unauthenticated, "the token was revoked")
		}
	}
	return nil
}

func (c *choosy) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return &grpc_health_v1.HealthCheckResponse{}, c.look(ctx)
}

func (c *choosy) Watch(_ *grpc_health_v1.HealthCheckRequest, s grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	if err := s.Send(&grpc_health_v1.HealthCheckResponse{}); err != nil {
		return err
	}
	return c.look(s.Context())
}

// dialled connects a workload to a choosy service, over TLS.
func dialled(t *testing.T, c *choosy, p *platform) (*client.Workload, grpc_health_v1.HealthClient) {
	t.Helper()
	c.seen = make(chan string, 100)
	certified := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(certified.Close)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	s := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&certified.TLS.Certificates[0])))
	grpc_health_v1.RegisterHealthServer(s, c)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	roots := x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	w := p.workload(t)
	opts, err := w.DialOptions("https://" + l.Addr().String())
	must(t, err)
	conn, err := grpc.NewClient(l.Addr().String(), append(opts, grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(roots, "")))...)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return w, grpc_health_v1.NewHealthClient(conn)
}

func (c *choosy) tokens() []string {
	var all []string
	for len(c.seen) > 0 {
		all = append(all, <-c.seen)
	}
	return all
}

func TestOneExchangeAfterUnauthenticated(t *testing.T) {
	t.Parallel()
	first, second := accessToken(1), accessToken(2)
	for name, tc := range map[string]struct {
		p      *platform
		c      *choosy
		want   codes.Code
		tokens []string
	}{
		"a good token":                {&platform{}, &choosy{}, codes.OK, []string{first}},
		"the new token is taken":      {&platform{}, &choosy{rejects: []int{1}}, codes.OK, []string{first, second}},
		"the new one is rejected too": {&platform{}, &choosy{rejects: []int{1, 2, 3}}, codes.Unauthenticated, []string{first, second}},
		"the exchange fails": {&platform{token: func(n int, _ url.Values) answer {
			if n == 1 {
				return granted(1, 300)
			}
			return answer{status: 400}
		}}, &choosy{rejects: []int{1}}, codes.Unauthenticated, []string{first}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, calls := dialled(t, tc.c, tc.p)
			_, err := calls.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
			if got := tc.c.tokens(); status.Code(err) != tc.want || !slices.Equal(got, tc.tokens) {
				t.Errorf("%v with %q, want %s with %q", err, got, tc.want, tc.tokens)
			}
		})
	}
}

// TestAStreamThatIsUnauthenticated is not repeated; the next call carries a new token.
func TestAStreamThatIsUnauthenticated(t *testing.T) {
	t.Parallel()
	p, c := &platform{}, &choosy{rejects: []int{1}}
	_, calls := dialled(t, c, p)
	s, err := calls.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	must(t, err)
	_, err = s.Recv()
	must(t, err)
	if _, err = s.Recv(); status.Code(err) != codes.Unauthenticated {
		t.Errorf("the stream ends with %v", err)
	}
	_, err = calls.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if got := c.tokens(); err != nil || got[len(got)-1] != accessToken(2) || p.exchanges() != 2 {
		t.Errorf("afterwards: %v with %q in %d exchanges", err, got, p.exchanges())
	}
}

// TestCallsToElsewhereCauseNoExchange: what our own check of the origin answers is no server's rejection.
func TestCallsToElsewhereCauseNoExchange(t *testing.T) {
	t.Parallel()
	p := &platform{}
	w := p.workload(t)
	opts, err := w.DialOptions("https://elsewhere.example")
	must(t, err)
	certified := httptest.NewTLSServer(nil)
	t.Cleanup(certified.Close)
	roots := x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	c := &choosy{seen: make(chan string, 1)}
	s := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&certified.TLS.Certificates[0])))
	grpc_health_v1.RegisterHealthServer(s, c)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	conn, err := grpc.NewClient(l.Addr().String(), append(opts, grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(roots, "")))...)
	must(t, err)
	defer func() { _ = conn.Close() }()
	_, err = grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if status.Code(err) != codes.Unauthenticated || p.exchanges() != 0 || len(c.seen) != 0 {
		t.Errorf("%v after %d exchanges and %d calls", err, p.exchanges(), len(c.seen))
	}
	if text := fmt.Sprintf("%v %+v", opts, w); strings.Contains(text, tokenMarker) || strings.Contains(text, subjectMarker) {
		t.Error("a token is printed")
	}
}
