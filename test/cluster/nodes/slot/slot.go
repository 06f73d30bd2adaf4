//go:build unix

// Package slot hands out the numbers that clusters with nodes are told apart by on one machine: names of network namespaces
// and cgroups and ranges of addresses follow from them (package network). A number is held by a lock that the kernel gives
// back when the process is gone, however it went, so what a killed run left behind is known and can be cleared away.
package slot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Count is how many clusters fit on one machine.
const Count = 16

// Base is where the slots' locks lie. Like the network namespaces that they stand for, they do not outlive a reboot where
// /run is kept in memory; where it is not, clearing away what is gone does no harm.
const Base = "/run/lanyard-nodes"

// ErrFull says that no slot is free.
var ErrFull = errors.New("no slot is free")

// Slot is a number that is held.
type Slot struct {
	number int
	base   string
	lock   *os.File
}

// Number is the slot's number, from 0 up.
func (s *Slot) Number() int { return s.number }

// Take takes the first free slot in base for which usable returns true. What a dead holder has left, in whichever slot, is
// cleared away first by calling clear with the slot's number.
func Take(base string, usable func(number int) bool, clear func(number int) error) (*Slot, error) {
	if err := os.MkdirAll(base, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the slots: %w", err)
	}
	var taken *Slot
	err := exclusively(base, func() error {
		for number := range Count {
			s, err := try(base, number, clear)
			if err != nil {
				return err
			}
			switch {
			case s == nil:
			case taken == nil && usable(number):
				taken = s
			default:
				_ = s.lock.Close()
			}
		}
		if taken == nil {
			return fmt.Errorf("%w: %d clusters are running, or their addresses are in use here", ErrFull, Count)
		}
		return os.WriteFile(taken.mark(), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
	})
	if err != nil {
		if taken != nil {
			_ = taken.lock.Close()
		}
		return nil, fmt.Errorf("taking a slot: %w", err)
	}
	return taken, nil
}

// Sweep clears away what dead holders have left, and takes nothing.
func Sweep(base string, clear func(number int) error) error {
	if _, err := os.Stat(base); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return exclusively(base, func() error {
		for number := range Count {
			s, err := try(base, number, clear)
			if err != nil {
				return err
			}
			if s != nil {
				_ = s.lock.Close()
			}
		}
		return nil
	})
}

// Release gives the slot back. Whatever stood under its number has to be gone, or the next holder would find it.
func (s *Slot) Release() error {
	return exclusively(s.base, func() error {
		return errors.Join(os.Remove(s.mark()), s.lock.Close())
	})
}

// mark is the file that says that the slot is, or was, in use; it holds the holder's process id, for people.
func (s *Slot) mark() string { return filepath.Join(s.base, fmt.Sprintf("slot-%d.pid", s.number)) }

// try takes a slot, clearing away what its last holder left; nil if it is held.
func try(base string, number int, clear func(int) error) (*Slot, error) {
	f, err := os.OpenFile(filepath.Join(base, fmt.Sprintf("slot-%d.lock", number)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, err
	}
	s := &Slot{number: number, base: base, lock: f}
	if _, err := os.Stat(s.mark()); err != nil {
		return s, nil
	}
	if err := clear(number); err != nil {
		return nil, errors.Join(fmt.Errorf("clearing away what a run that was killed left in slot %d: %w", number, err), f.Close())
	}
	if err := os.Remove(s.mark()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

// exclusively calls do while no other process is in here for the same base.
func exclusively(base string, do func() error) error {
	f, err := os.OpenFile(filepath.Join(base, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			if err != nil {
				return err
			}
			return do()
		}
	}
}
