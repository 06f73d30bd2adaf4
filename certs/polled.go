package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// source follows a pair of files.
type source interface {
	Start(ctx context.Context) error
	ReadCertificate() error
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	RegisterCallback(func(tls.Certificate))
}

// watched follows the files by the kernel's notices, and looks every interval besides.
func watched(cert, key string, interval time.Duration) (source, error) {
	w, err := certwatcher.New(cert, key)
	if err != nil {
		return nil, err
	}
	if interval > 0 {
		w.WithWatchInterval(interval)
	}
	return w, nil
}

// exhausted says that the node has no notices left to give: others watch as many files as its limits allow, which on a busy node is
// no rarity. That is no reason not to serve.
func exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOSPC)
}

// pollInterval is how often the files are looked at where nobody tells of changes.
const pollInterval = 10 * time.Second

// polled follows the files by looking. A pair that cannot be read or does not match leaves the old one.
type polled struct {
	cert, key string
	interval  time.Duration
	log       logr.Logger
	current   atomic.Pointer[tls.Certificate]
	changed   func(tls.Certificate)
}

func newPolled(cert, key string, interval time.Duration, log logr.Logger) (*polled, error) {
	p := &polled{cert: cert, key: key, interval: interval, log: log, changed: func(tls.Certificate) {}}
	if p.interval <= 0 {
		p.interval = pollInterval
	}
	return p, p.ReadCertificate()
}

// ReadCertificate reads the pair.
func (p *polled) ReadCertificate() error {
	pair, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err != nil {
		return err
	}
	if old := p.current.Load(); old != nil && bytes.Equal(old.Leaf.Raw, pair.Leaf.Raw) {
		return nil
	}
	p.current.Store(&pair)
	p.changed(pair)
	return nil
}

// Start looks until ctx ends.
func (p *polled) Start(ctx context.Context) error {
	tick := time.NewTicker(p.interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := p.ReadCertificate(); err != nil {
				p.log.Error(err, "the new serving certificate cannot be used, the old one stays")
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// GetCertificate is the last pair that could be read.
func (p *polled) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return p.current.Load(), nil
}

// RegisterCallback has f called for each new pair. It is called before Start.
func (p *polled) RegisterCallback(f func(tls.Certificate)) { p.changed = f }
