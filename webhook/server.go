package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/lanyard-k8s/lanyard/internal/lifecycle"
)

// The server's deadlines. A review is answered in milliseconds; the API server's own timeout is 3 s.
const (
	readTimeout  = 5 * time.Second
	writeTimeout = 10 * time.Second
	// idleTimeout is longer than the API server's client keeps a connection (90 s). Were it shorter, the server could close
	// a connection at the very moment a review is sent on it, and that review would fail.
	idleTimeout = 3 * time.Minute
	// finishTimeout is how long requests in flight may take once the listener is closed.
	finishTimeout = 15 * time.Second
)

// Certificates are the serving pair: certs.Reloader, or anything that can say whether its pair is good.
type Certificates interface {
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Check() error
}

// Server serves a Desk over TLS and ends in an order that fails no call: when its context ends it says "not ready" and
// closes each connection after its next answer; DrainDelay later, when the endpoints are gone, it closes the listener and
// the idle connections and finishes what is in flight.
type Server struct {
	Desk       *Desk
	Certs      Certificates
	Listener   net.Listener
	DrainDelay time.Duration
	Log        logr.Logger
}

// Run serves until ctx ends and everything is drained.
//
// controller-runtime's manager.Server does the serving and the shutdown, around an http.Server of ours. Its
// webhook.Server would watch the certificate, too, but builds its own http.Server: no ReadTimeout, a fixed minute to shut
// down, and no place between "not ready" and "listener closed" at which to keep serving.
func (s *Server) Run(ctx context.Context) error {
	if s.Desk == nil || s.Certs == nil || s.Listener == nil {
		return errors.New("webhook server: desk, certificates or listener is missing")
	}
	late, release := lifecycle.Delay(ctx, s.DrainDelay, func() {
		s.Log.Info("draining", "delay", s.DrainDelay.String())
		s.Desk.Drain()
	})
	defer release()
	srv := newHTTPServer(s.Desk, s.Log)
	finish := finishTimeout
	inner := &manager.Server{
		Name: "webhook", Server: srv, Listener: tls.NewListener(s.Listener, tlsConfig(s.Certs)), ShutdownTimeout: &finish,
	}
	s.Log.Info("serving", "addr", s.Listener.Addr().String())
	err := inner.Start(logr.NewContext(late, s.Log))
	// What the deadline left over is cut.
	return errors.Join(wrapServe(err), srv.Close())
}

func wrapServe(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("serve webhooks: %w", err)
}

// newHTTPServer speaks HTTP/1.1 only. The API server asks for nothing else on purpose (over HTTP/2 all its calls would
// share one connection to one replica), and what is not spoken needs no limits.
func newHTTPServer(h http.Handler, l logr.Logger) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           h,
		Protocols:         &protocols,
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(errorLog{l}, "", 0),
	}
}

func tlsConfig(r Certificates) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: r.GetCertificate}
}

// errorLog takes what net/http has to complain about. Failed handshakes are shown at debug, since every port scan is one;
// other lines may quote what a client sent, so that only their being is shown.
type errorLog struct{ log logr.Logger }

// Write implements io.Writer.
func (e errorLog) Write(p []byte) (int, error) {
	if line, ok := bytes.CutPrefix(p, []byte("http: TLS handshake error ")); ok {
		e.log.V(1).Info("TLS handshake error", "detail", string(bytes.TrimSpace(line)))
	} else {
		e.log.Info("HTTP server error")
	}
	return len(p), nil
}
