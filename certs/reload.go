package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// ErrNoCertificate is returned to a handshake, and by Reloader.Check, when no usable pair was ever loaded.
var ErrNoCertificate = errors.New("no certificate is loaded")

// Options say what a Reloader reports and how often it looks even when the file system stays silent.
type Options struct {
	// Log receives what was loaded and what was refused. Required.
	Log logr.Logger
	// OnLoad is told the end of the certificate's life after each pair that is taken into use. It may be nil.
	OnLoad func(notAfter time.Time)
	// Interval is the time between looks at the files, 10 s when zero.
	Interval time.Duration
	// Now is the clock, time.Now when nil.
	Now func() time.Time
}

// Reloader serves the pair in a directory and follows its changes. It looks at the files every interval, and at once when
// controller-runtime's certwatcher sees a new pair, where the node can watch more files. The old pair stays when the new one cannot be
// read or does not match, and a pair that has already expired never replaces one that has not, since that is what a restored backup
// looks like.
type Reloader struct {
	watcher source
	mu      sync.Mutex // serialises adopt
	current atomic.Pointer[tls.Certificate]
	opts    Options
}

// NewReloader loads tls.crt and tls.key from dir. Their absence is an error: the kubelet starts no container before the
// Secret is there, so a program without one has been given the wrong directory.
func NewReloader(dir string, opts Options) (*Reloader, error) {
	return newReloader(dir, opts, watched)
}

// newReloader is NewReloader with a way to watch.
func newReloader(dir string, opts Options, watch func(cert, key string, interval time.Duration, log logr.Logger) (source, error)) (*Reloader, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	cert, key := filepath.Join(dir, CertFile), filepath.Join(dir, KeyFile)
	w, err := watch(cert, key, opts.Interval, opts.Log)
	if exhausted(err) {
		opts.Log.Info("the node's limit of watched files is reached; the certificate is looked at every few seconds instead", "cause", err.Error())
		w, err = newPolled(cert, key, opts.Interval, opts.Log)
	}
	if err != nil {
		return nil, fmt.Errorf("load serving certificate: %w", err)
	}
	r := &Reloader{watcher: w, opts: opts}
	r.adopt()
	w.RegisterCallback(func(tls.Certificate) { r.adopt() })
	return r, nil
}

// Run follows the files until ctx ends.
func (r *Reloader) Run(ctx context.Context) error {
	if err := r.watcher.Start(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("watch serving certificate: %w", err)
	}
	return nil
}

// GetCertificate is for tls.Config.
func (r *Reloader) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := r.current.Load(); c != nil {
		return c, nil
	}
	return nil, ErrNoCertificate
}

// Check says why the current pair cannot be served: there is none, or its time is over.
func (r *Reloader) Check() error {
	c := r.current.Load()
	if c == nil {
		return ErrNoCertificate
	}
	if now := r.opts.Now(); now.After(c.Leaf.NotAfter) {
		return fmt.Errorf("certificate expired at %s", c.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// adopt takes the watcher's pair into use, unless it is the one in use or worse than it.
func (r *Reloader) adopt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, err := r.watcher.GetCertificate(nil)
	if err != nil || next == nil || next.Leaf == nil {
		return
	}
	old := r.current.Load()
	if old != nil && sameChain(old, next) {
		return
	}
	now := r.opts.Now()
	if old != nil && now.After(next.Leaf.NotAfter) && !now.After(old.Leaf.NotAfter) {
		r.opts.Log.Error(nil, "new certificate has already expired, the old one stays", "notAfter", next.Leaf.NotAfter)
		return
	}
	r.current.Store(next)
	r.opts.Log.Info("serving certificate loaded", "notAfter", next.Leaf.NotAfter, "dnsNames", next.Leaf.DNSNames)
	if r.opts.OnLoad != nil {
		r.opts.OnLoad(next.Leaf.NotAfter)
	}
}
