//go:build unix

package filelock_test

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lanyard-k8s/lanyard/test/cluster/filelock"
)

func TestOneHolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	held, err := filelock.Wait(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := filelock.Try(path); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("tried while it was held: %v", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	err = filelock.Holding(path, func() error {
		_, err := filelock.Try(path)
		return err
	})
	if !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("tried while somebody was in there: %v", err)
	}
	free, err := filelock.Try(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := free.Close(); err != nil {
		t.Error(err)
	}
}
