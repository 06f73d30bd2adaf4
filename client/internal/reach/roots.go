package reach

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
)

// Roots are the certificates in a CA file, which may be replaced while a process lives.
type Roots struct {
	file string

	mu      sync.Mutex
	pem     []byte
	pool    *x509.CertPool
	changes int
}

// NewRoots reads a file that must hold a certificate.
func NewRoots(file string) (*Roots, error) {
	r := &Roots{file: file}
	return r, r.read()
}

// Look reads the file again, and counts how often what it holds has changed. A file that cannot be read now, or holds no certificate,
// leaves what it held before in force.
func (r *Roots) Look() (pool *x509.CertPool, changes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.read() // what was there before serves on
	return r.pool, r.changes
}

func (r *Roots) read() error {
	pem, err := os.ReadFile(r.file)
	if err != nil {
		return fmt.Errorf("read the CA file: %w", err)
	}
	if r.pool != nil && bytes.Equal(pem, r.pem) {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return errors.New("CA file " + r.file + ": holds no certificate")
	}
	r.pem, r.pool = pem, pool
	r.changes++
	return nil
}
