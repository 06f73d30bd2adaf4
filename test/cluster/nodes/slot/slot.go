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

	"github.com/lanyard-k8s/lanyard/test/cluster/filelock"
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
	pool   Pool
	lock   *os.File
}

// Pool is the slots of a machine. Its functions are called while no other process takes or gives back a slot.
type Pool struct {
	// Base is the folder of the slots' locks.
	Base string
	// Usable says whether a slot may be taken; what it stands for may be in use for something else.
	Usable func(number int) bool
	// Clear removes what is there under a slot's number, for whose holder has died.
	Clear func(number int) error
	// Open is called whenever a slot is taken, Close when none is left.
	Open, Close func() error
}

// Number is the slot's number, from 0 up.
func (s *Slot) Number() int { return s.number }

// Take takes the first free slot that is usable. What dead holders have left, in whichever slot, is cleared away first.
func (p Pool) Take() (*Slot, error) {
	if err := os.MkdirAll(p.Base, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the slots: %w", err)
	}
	var taken *Slot
	err := p.exclusively(func() error {
		for number := range Count {
			s, err := p.try(number)
			if err != nil {
				return err
			}
			switch {
			case s == nil:
			case taken == nil && p.Usable(number):
				taken = s
			default:
				_ = s.lock.Close()
			}
		}
		if taken == nil {
			return fmt.Errorf("%w: %d clusters are running, or their addresses are in use here", ErrFull, Count)
		}
		if err := os.WriteFile(taken.mark(), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
			return err
		}
		return p.Open()
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
func (p Pool) Sweep() error {
	if _, err := os.Stat(p.Base); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return p.exclusively(p.sweep)
}

// sweep is Sweep while no other process is in here.
func (p Pool) sweep() error {
	held := 0
	for number := range Count {
		s, err := p.try(number)
		if err != nil {
			return err
		}
		if s == nil {
			held++
			continue
		}
		_ = s.lock.Close()
	}
	if held > 0 {
		return nil
	}
	return p.Close()
}

// Release gives the slot back. Whatever stood under its number has to be gone, or the next holder would find it.
func (s *Slot) Release() error {
	return s.pool.exclusively(func() error {
		return errors.Join(os.Remove(s.mark()), s.lock.Close(), s.pool.sweep())
	})
}

// mark is the file that says that the slot is, or was, in use; it holds the holder's process id, for people.
func (s *Slot) mark() string { return filepath.Join(s.pool.Base, fmt.Sprintf("slot-%d.pid", s.number)) }

// try takes a slot, clearing away what its last holder left; nil if it is held.
func (p Pool) try(number int) (*Slot, error) {
	f, err := filelock.Try(filepath.Join(p.Base, fmt.Sprintf("slot-%d.lock", number)))
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &Slot{number: number, pool: p, lock: f}
	if _, err := os.Stat(s.mark()); err != nil {
		return s, nil
	}
	if err := p.Clear(number); err != nil {
		return nil, errors.Join(fmt.Errorf("clearing away what a run that was killed left in slot %d: %w", number, err), f.Close())
	}
	if err := os.Remove(s.mark()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

// exclusively calls do while no other process is in here for the same folder.
func (p Pool) exclusively(do func() error) error {
	return filelock.Holding(filepath.Join(p.Base, "lock"), do)
}
