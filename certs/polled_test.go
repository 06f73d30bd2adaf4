package certs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/lanyard-k8s/lanyard/test/timing"
)

// TestANodeThatWatchesNoMoreFiles: the program serves all the same, and finds a new pair by looking.
func TestANodeThatWatchesNoMoreFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := SelfSigned(time.Now(), "first.example")
	if err == nil {
		err = first.Write(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	full := func(string, string, time.Duration, logr.Logger) (source, error) {
		return nil, fmt.Errorf("watch: %w", syscall.EMFILE)
	}
	loaded := make(chan time.Time, 10)
	r, err := newReloader(dir, Options{Log: logr.Discard(), Interval: time.Millisecond, OnLoad: func(end time.Time) { loaded <- end }}, full)
	if err != nil {
		t.Fatal(err)
	}
	timing.Next(t, time.Minute, "the first pair is loaded", loaded)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	if err := os.WriteFile(filepath.Join(dir, CertFile), []byte("half a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := r.GetCertificate(nil); err != nil || c.Leaf.DNSNames[0] != "first.example" {
		t.Errorf("a broken pair has taken the old one's place: %v", err)
	}
	second, err := SelfSigned(time.Now(), "second.example")
	if err == nil {
		err = second.Write(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	timing.Next(t, time.Minute, "the second pair is loaded", loaded)
	if c, err := r.GetCertificate(nil); err != nil || c.Leaf.DNSNames[0] != "second.example" {
		t.Errorf("the new pair is not served: %v", err)
	}
	cancel()
	if err := timing.Next(t, time.Minute, "the reloader ends with its context", done); err != nil {
		t.Error(err)
	}
	if _, err := newReloader(t.TempDir(), Options{Log: logr.Discard()}, full); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory without a certificate: %v", err)
	}
}
