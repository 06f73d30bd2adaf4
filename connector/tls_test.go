package connector

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

// value is a metric's number.
func value(t *testing.T, m prometheus.Metric) float64 {
	t.Helper()
	var out dto.Metric
	must(t, m.Write(&out))
	return out.GetCounter().GetValue() + out.GetGauge().GetValue()
}

func TestTheDeploymentSpeaksTLS12OrLater(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Deployment)
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		conn, err := tls.Dial("tcp", g.address, &tls.Config{RootCAs: g.roots, MinVersion: version, MaxVersion: version, NextProtos: []string{"h2"}})
		if (err == nil) != want {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err == nil {
			must(t, conn.Close())
		}
	}
}

func TestNoClearTextOnTheDeploymentsPort(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Deployment)
	conn, err := net.Dial("tcp", g.address)
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	_, err = conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
	must(t, err)
	answer := make([]byte, 64)
	n, _ := conn.Read(answer)
	if n > 7 || strings.Contains(string(answer[:n]), "HTTP") { // at most a TLS alert
		t.Errorf("answered %q", answer[:n])
	}
}

func TestAnotherCAIsNotTrusted(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Deployment)
	g.roots = x509.NewCertPool()
	ctx := metadata.AppendToOutgoingContext(t.Context(), keyIdempotency, "k")
	_, err := healtheventv1.NewPlatformConnectorClient(g.dial(t)).HealthEventOccurredV1(ctx, batchOf(own))
	wantCode(t, "another CA", err, codes.Unavailable)
}

func TestTransportCredentialsAreAServers(t *testing.T) {
	t.Parallel()
	var c credentials.TransportCredentials = newTransport(nil, nil)
	if _, _, err := c.ClientHandshake(t.Context(), "", nil); err == nil {
		t.Error("a client's handshake")
	}
	if c.Clone() == nil || c.Info().SecurityProtocol != "plain" {
		t.Error("clone or description")
	}
}
