//go:build unix

// Package process runs the programs of a test control plane as child processes that cannot outlive their parent, however it
// ends, and that a test may pause, resume and kill. It works on Linux and macOS and needs no privileges.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Spec says what to run.
type Spec struct {
	// Name is what messages call the process.
	Name string
	// Path is the program's file, and Args are its arguments.
	Path string
	Args []string
	// Env is added to the parent's environment.
	Env []string
	// Log is the file that output is appended to.
	Log string
	// Guard is the file of the built program in the folder guard.
	Guard string
}

// Process is a running program under its guard. Its methods may be called from several goroutines.
type Process struct {
	spec  Spec
	guard *exec.Cmd
	done  chan struct{}

	mu      sync.Mutex
	orders  io.WriteCloser
	answers *os.File
}

// ErrEnded says that the process has ended already.
var ErrEnded = errors.New("the process has ended")

// Start runs the program. It does not wait for the program to be of use.
func Start(spec Spec) (*Process, error) {
	if err := os.MkdirAll(filepath.Dir(spec.Log), 0o700); err != nil {
		return nil, fmt.Errorf("making the log folder of %s: %w", spec.Name, err)
	}
	log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", spec.Name, err)
	}
	defer log.Close()
	guard := exec.Command(spec.Guard, append([]string{spec.Path}, spec.Args...)...)
	guard.Stdout, guard.Stderr = log, log
	answers, answering, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making the guard's answers for %s: %w", spec.Name, err)
	}
	defer answering.Close()
	guard.ExtraFiles = []*os.File{answering}
	guard.Env = append(append(os.Environ(), spec.Env...), "GUARD_ANSWERS=1")
	// Its own group keeps the terminal's ^C away: stopping in order is the parent's business.
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	orders, err := guard.StdinPipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making the guard's pipe for %s: %w", spec.Name, err), answers.Close())
	}
	if err := guard.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", spec.Name, err), answers.Close())
	}
	p := &Process{spec: spec, guard: guard, orders: orders, answers: answers, done: make(chan struct{})}
	go func() {
		_ = guard.Wait()
		close(p.done)
		_ = answers.Close() // whoever waits for an answer is told
	}()
	return p, nil
}

// Name returns the name that the process was started under.
func (p *Process) Name() string { return p.spec.Name }

// Log returns the path of the file with the program's output.
func (p *Process) Log() string { return p.spec.Log }

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Pause stops the program in its tracks: connections stay open and nothing answers.
func (p *Process) Pause() error { return p.order("stop") }

// Resume lets a paused program go on.
func (p *Process) Resume() error { return p.order("cont") }

// Kill ends the program as kill -9 does and waits until it is gone.
func (p *Process) Kill() error {
	if err := p.order("kill"); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Terminate asks the program to end, without waiting: Done tells when it has.
func (p *Process) Terminate() error {
	// A paused program could not act on the request.
	return errors.Join(p.order("term"), p.order("cont"))
}

// Stop asks the program to end and kills it when ctx is done or grace has passed. The program is gone when Stop returns;
// stopping one that has ended is no fault.
func (p *Process) Stop(ctx context.Context, grace time.Duration) error {
	if err := p.Terminate(); errors.Is(err, ErrEnded) {
		return nil
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	if err := p.Kill(); err != nil && !errors.Is(err, ErrEnded) {
		return fmt.Errorf("stopping %s: %w", p.spec.Name, err)
	}
	return nil
}

// order hands one word to the guard and waits until it has been carried out, or the guard has ended.
func (p *Process) order(word string) error {
	select {
	case <-p.done:
		return ErrEnded
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := io.WriteString(p.orders, word+"\n"); err != nil {
		return fmt.Errorf("%w: %s", ErrEnded, p.spec.Name)
	}
	_ = p.answers.SetReadDeadline(time.Now().Add(obeyWithin)) // a pipe has deadlines
	if _, err := p.answers.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the guard of %s has not carried out %q within %s", p.spec.Name, word, obeyWithin)
	}
	return nil
}

// obeyWithin is how long the guard may take for an order: milliseconds, but where the machine stands still.
const obeyWithin = 2 * time.Minute
