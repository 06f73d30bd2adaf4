//go:build unix

package slot_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/slot"
)

// dyingBase, when set in the environment, makes this test program take a slot in that folder and die without giving it back.
const dyingBase = "LANYARD_TEST_SLOT_BASE"

func TestMain(m *testing.M) {
	if base := os.Getenv(dyingBase); base != "" {
		if _, err := (&pool{base: base}).slots().Take(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// pool records what a pool of slots calls.
type pool struct {
	base    string
	called  []string
	taken   map[int]bool
	failing bool
}

func (p *pool) slots() slot.Pool {
	note := func(what string) func() error {
		return func() error { p.called = append(p.called, what); return nil }
	}
	return slot.Pool{
		Base:   p.base,
		Usable: func(number int) bool { return !p.taken[number] },
		Clear: func(number int) error {
			p.called = append(p.called, fmt.Sprint("clear ", number))
			if p.failing {
				return errors.New("it does not go away")
			}
			return nil
		},
		Open: note("open"), Close: note("close"),
	}
}

func (p *pool) take(t *testing.T) *slot.Slot {
	t.Helper()
	s, err := p.slots().Take()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func release(t *testing.T, s *slot.Slot) {
	t.Helper()
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
}

// die has another process take the first slot and die.
func (p *pool) die(t *testing.T) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), dyingBase+"="+p.base)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestSlotsAreToldApart(t *testing.T) {
	t.Parallel()
	p := &pool{base: filepath.Join(t.TempDir(), "slots"), taken: map[int]bool{1: true}}
	first, second := p.take(t), p.take(t)
	if first.Number() != 0 || second.Number() != 2 {
		t.Errorf("got slots %d and %d, want 0 and, since 1 is not usable, 2", first.Number(), second.Number())
	}
	release(t, first)
	again := p.take(t)
	if again.Number() != 0 {
		t.Errorf("got slot %d, want 0, which was given back", again.Number())
	}
	release(t, again)
	release(t, second)
	if diff := cmp.Diff([]string{"open", "open", "open", "close"}, p.called); diff != "" {
		t.Errorf("the pool is opened with each slot and closed with the last (-want +got):\n%s", diff)
	}
}

func TestADeadHoldersSlotIsCleared(t *testing.T) {
	t.Parallel()
	for name, clear := range map[string]func(t *testing.T, p *pool){
		"by who takes a slot next": func(t *testing.T, p *pool) { release(t, p.take(t)) },
		"by who sweeps": func(t *testing.T, p *pool) {
			if err := p.slots().Sweep(); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &pool{base: filepath.Join(t.TempDir(), "slots")}
			p.die(t)
			clear(t, p)
			if len(p.called) == 0 || p.called[0] != "clear 0" || p.called[len(p.called)-1] != "close" {
				t.Errorf("called: %q, want clear 0 first and close last", p.called)
			}
			p.called = nil
			if err := p.slots().Sweep(); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff([]string{"close"}, p.called); diff != "" {
				t.Errorf("it is cleared once (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatCannotBeClearedIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	p := &pool{base: filepath.Join(t.TempDir(), "slots"), failing: true}
	p.die(t)
	for range 2 {
		if _, err := p.slots().Take(); err == nil || !cmp.Equal(err.Error(),
			"taking a slot: clearing away what a run that was killed left in slot 0: it does not go away") {
			t.Errorf("error %v, want one about slot 0", err)
		}
	}
}

func TestAFullMachineSaysSo(t *testing.T) {
	t.Parallel()
	p := &pool{base: filepath.Join(t.TempDir(), "slots"), taken: map[int]bool{}}
	for number := range slot.Count {
		p.taken[number] = true
	}
	if _, err := p.slots().Take(); !errors.Is(err, slot.ErrFull) {
		t.Errorf("error %v, want %v", err, slot.ErrFull)
	}
}

func TestSweepingWhereNothingEverRan(t *testing.T) {
	t.Parallel()
	p := &pool{base: filepath.Join(t.TempDir(), "none")}
	if err := p.slots().Sweep(); err != nil || len(p.called) > 0 {
		t.Errorf("error %v, called %q, want nothing", err, p.called)
	}
}
