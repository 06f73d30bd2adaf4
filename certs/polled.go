package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"sync"
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
func watched(cert, key string, interval time.Duration, log logr.Logger) (source, error) {
	w, err := certwatcher.New(cert, key)
	if err != nil {
		return nil, err
	}
	if interval > 0 {
		w.WithWatchInterval(interval)
	}
	p, err := newPolled(cert, key, interval, log)
	if err != nil {
		return nil, err
	}
	return &prompted{polled: p, watcher: w}, nil
}

// prompted is polled that controller-runtime's watcher prompts, so that most new pairs are served at once. The watcher's own pair is not
// used: it compares leaves, and would keep an old intermediate under the same leaf.
type prompted struct {
	*polled
	watcher *certwatcher.CertWatcher
}

// Start looks, and listens to the watcher, until ctx ends.
func (p *prompted) Start(ctx context.Context) error {
	var looking sync.WaitGroup
	defer looking.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop() // before the wait, when the watcher cannot go on
	p.watcher.RegisterCallback(func(tls.Certificate) { p.look() })
	looking.Go(func() { _ = p.polled.Start(ctx) }) // has no error to return
	err := p.watcher.Start(ctx)
	if err != nil && ctx.Err() != nil {
		// It was told to stop while it still tried to watch files that are gone, and has left its watch open. Asked once more it closes it.
		err = p.watcher.Start(ctx)
	}
	return err
}

// exhausted says that the node has no notices left to give: others watch as many files as its limits allow, which on a busy node is
// no rarity. That is no reason not to serve.
func exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOSPC)
}

// sameChain says that two pairs show clients the same certificates. The leaf alone does not tell: it stays when its issuer's certificate
// is renewed with the same key, and clients then need the new intermediate.
func sameChain(a, b *tls.Certificate) bool {
	return slices.EqualFunc(a.Certificate, b.Certificate, bytes.Equal)
}

// pollInterval is how often the files are looked at where nobody tells of changes.
const pollInterval = 10 * time.Second

// polled follows the files by looking. A pair that cannot be read or does not match leaves the old one.
type polled struct {
	cert, key string
	interval  time.Duration
	log       logr.Logger
	mu        sync.Mutex // serialises reading
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
	p.mu.Lock()
	defer p.mu.Unlock()
	pair, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err != nil {
		return err
	}
	if old := p.current.Load(); old != nil && sameChain(old, &pair) {
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
			p.look()
		case <-ctx.Done():
			return nil
		}
	}
}

// look reads the pair, and says so if it cannot.
func (p *polled) look() {
	if err := p.ReadCertificate(); err != nil {
		p.log.Error(err, "the new serving certificate cannot be used, the old one stays")
	}
}

// GetCertificate is the last pair that could be read.
func (p *polled) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return p.current.Load(), nil
}

// RegisterCallback has f called for each new pair. It is called before Start.
func (p *polled) RegisterCallback(f func(tls.Certificate)) { p.changed = f }
