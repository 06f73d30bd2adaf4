//go:build unix

// Package filelock takes locks among processes. Closing the file gives a lock back, and so does the kernel when its holder dies.
package filelock

import (
	"errors"
	"os"
	"syscall"
)

// Wait takes the lock of a file once nobody else has it. It has no deadline: it is for what takes milliseconds.
func Wait(path string) (*os.File, error) { return take(path, syscall.LOCK_EX) }

// Try takes the lock of a file, or fails with syscall.EWOULDBLOCK where somebody else has it.
func Try(path string) (*os.File, error) { return take(path, syscall.LOCK_EX|syscall.LOCK_NB) }

// Holding calls do while no other process holds the lock of a file.
func Holding(path string, do func() error) error {
	f, err := Wait(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return do()
}

func take(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
