package client_test

import (
	"crypto/x509"
	"net"
	"net/http/httptest"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
)

// TestCredentialsOnARealConnection holds the check of origins to what gRPC says of a call, over TLS.
func TestCredentialsOnARealConnection(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(certified.Close)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	d := &desk{}
	s := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&certified.TLS.Certificates[0])))
	healtheventv1.RegisterPlatformConnectorServer(s, d)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	roots := x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	w := (&platform{}).workload(t)
	for name, tc := range map[string]struct {
		origin string
		want   codes.Code
	}{
		"the server's origin": {"https://" + l.Addr().String(), codes.OK},
		"another server's":    {"https://127.0.0.1:1", codes.Unauthenticated},
		"the same in http":    {"http://" + l.Addr().String(), codes.Unauthenticated},
		"the base URL's":      {"https://platform.example", codes.Unauthenticated},
	} {
		creds, err := w.PerRPCCredentials(tc.origin)
		must(t, err)
		conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(roots, "")), grpc.WithPerRPCCredentials(creds))
		must(t, err)
		_, err = healtheventv1.NewPlatformConnectorClient(conn).HealthEventOccurredV1(t.Context(), batch(name))
		if status.Code(err) != tc.want {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
		_ = conn.Close()
	}
	if _, tokens, _ := d.seen(); !slices.Equal(tokens, []string{"Bearer " + accessToken(1)}) {
		t.Errorf("the server got %q", tokens)
	}
}
