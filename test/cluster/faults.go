//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/lanyard-k8s/lanyard/test/cluster/process"
)

// ErrNotRunning says that a component is not running.
var ErrNotRunning = errors.New("the component is not running")

// Pause stops a component in its tracks, as an overloaded machine does: connections stay open and nothing answers.
func (cp *ControlPlane) Pause(c Component) error { return cp.with(c, (*process.Process).Pause) }

// Resume lets a paused component go on.
func (cp *ControlPlane) Resume(c Component) error { return cp.with(c, (*process.Process).Resume) }

// Kill ends a component as a power cut does.
func (cp *ControlPlane) Kill(c Component) error {
	err := cp.with(c, (*process.Process).Kill)
	if err == nil {
		cp.mu.Lock()
		delete(cp.processes, c)
		cp.mu.Unlock()
	}
	return err
}

// Restart kills a component, if it runs, and starts it again with its data as they were. It waits until the API server
// answers again, whichever component it was.
func (cp *ControlPlane) Restart(ctx context.Context, c Component) error {
	if err := cp.Kill(c); err != nil && !errors.Is(err, ErrNotRunning) && !errors.Is(err, process.ErrEnded) {
		return err
	}
	if err := cp.launch(c); err != nil {
		return err
	}
	return cp.awaitReady(ctx)
}

// Logs returns everything that a component has written.
func (cp *ControlPlane) Logs(c Component) (string, error) {
	content, err := os.ReadFile(cp.Path("log", string(c)+".log"))
	if err != nil {
		return "", fmt.Errorf("reading the log of %s: %w", c, err)
	}
	return string(content), nil
}

// with does something to a component that runs.
func (cp *ControlPlane) with(c Component, do func(*process.Process) error) error {
	cp.mu.Lock()
	p := cp.processes[c]
	cp.mu.Unlock()
	if p == nil {
		return fmt.Errorf("%w: %s", ErrNotRunning, c)
	}
	return do(p)
}
