package connector

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/certs"
)

// serveBenchTLS is a Deployment's server as benchDesk makes it, with many connections.
func serveBenchTLS(ctx context.Context, file string) error {
	o, r, err := benchOptions()
	if err != nil {
		return err
	}
	d, err := NewDesk(o)
	if err != nil {
		return err
	}
	pair, err := certs.SelfSigned(time.Now(), "localhost")
	if err != nil {
		return err
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return err
	}
	s, err := NewServer(ServerOptions{
		Desk: d, Limits: Limits{MessageBytes: 4 << 20, HeaderBytes: 16 << 10, Streams: 128, Connections: 100_000, Request: 4 * time.Second, InFlight: 512 << 20},
		NewBucket: r.NewBucket, Drain: time.Second, Metrics: o.Metrics, Log: logr.Discard(),
		TLS: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}},
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(l.Addr().String()), 0o600); err != nil {
		return err
	}
	fmt.Println("up")
	return s.RunTCP(ctx, l)
}

// resident is what the process holds in memory that is no file's.
func (c *child) resident(b *testing.B) int {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.pid))
	if err != nil {
		b.Skip("this system does not tell a process's memory")
	}
	_, rest, _ := strings.Cut(string(raw), "RssAnon:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	must(b, err)
	return kilobytes << 10
}

// BenchmarkConnections reports what an open TLS connection on which an event has come costs a connector in bytes, and what
// opening it costs in CPU.
func BenchmarkConnections(b *testing.B) {
	const many = 1000
	for b.Loop() {
		c := startChild(b, "tls")
		address, err := os.ReadFile(filepath.Join(c.dir, "s.sock"))
		must(b, err)
		event := func(conn *grpc.ClientConn) {
			ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(b.Context(), keyAuthorization, "Bearer "+realToken()), 30*time.Second)
			defer cancel()
			if _, err := healtheventv1.NewPlatformConnectorClient(conn).HealthEventOccurredV1(ctx, realistic(1)); err != nil {
				b.Fatal(err)
			}
		}
		open := func() {
			conn, err := grpc.NewClient(string(address), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})))
			must(b, err)
			b.Cleanup(func() { _ = conn.Close() })
			event(conn)
		}
		for range 20 {
			open()
		}
		memory, cpu := c.resident(b), c.cpu(b)
		for range many {
			open()
		}
		b.ReportMetric(float64(c.resident(b)-memory)/many, "B/conn")
		b.ReportMetric(float64((c.cpu(b)-cpu).Microseconds())/many, "server-us/conn")
		b.ReportMetric(0, "ns/op")
	}
}
