package exchange

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"

	"github.com/lanyard-k8s/lanyard/internal/obs"
)

// NewServer is an http.Server with a deadline for every phase. A request that is held takes as long as hold; nobody else takes long. HTTP/2 is
// negotiated where there is TLS.
func NewServer(h http.Handler, certificates *tls.Config, hold time.Duration, logger logr.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		TLSConfig:         certificates,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      15*time.Second + hold,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10, // gateways pass their clients' headers on
		ErrorLog:          log.New(faultLog{logger}, "", 0),
	}
}

// faultLog is net/http's log of broken connections. Its lines quote addresses and TLS errors; they are of interest to whoever
// debugs alone.
type faultLog struct{ log logr.Logger }

func (f faultLog) Write(line []byte) (int, error) {
	f.log.V(1).Info("connection failed", "cause", string(line))
	return len(line), nil
}

// Serve is a task that serves until its context ends, and then finishes what is under way for as long as drain; stopping, which may be
// nil, is called first. Plain HTTP is served only where the listener is on loopback: subject tokens would be readable on the way.
func Serve(l net.Listener, srv *http.Server, drain time.Duration, stopping func(), logger logr.Logger) (func(context.Context) error, error) {
	if srv.TLSConfig == nil && !Loopback(l.Addr()) {
		return nil, errors.New("without a certificate only a loopback address is served: tokens would be readable on the way")
	}
	return func(ctx context.Context) error {
		stopped := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(stopped)
			if stopping != nil {
				stopping()
			}
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
			defer cancel()
			if err := srv.Shutdown(last); err != nil {
				_ = srv.Close()
			}
		})
		defer stop()
		logger.Info("serving", obs.KeyAddr, l.Addr().String(), "tls", srv.TLSConfig != nil)
		var err error
		if srv.TLSConfig != nil {
			err = srv.ServeTLS(l, "", "")
		} else {
			err = srv.Serve(l)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		<-stopped
		return nil
	}, nil
}

// Loopback says whether an address is this machine's own alone; a Unix socket's is.
func Loopback(a net.Addr) bool {
	if _, unix := a.(*net.UnixAddr); unix {
		return true
	}
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
