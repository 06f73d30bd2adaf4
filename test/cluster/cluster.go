//go:build unix

// Package cluster runs a real Kubernetes control plane on the loopback address: etcd, kube-apiserver and
// kube-controller-manager as child processes, without root, containers or nodes. Pods are admitted, scheduled to nowhere
// and never run, which is all that admission, policies, tokens and controllers need. It serves the tests and `make demo`.
// Package nodes adds real nodes to it where a machine allows that.
//
// The programs are built from their Go modules once (package program); what a run writes lies in a folder of its own
// outside the source tree (package rundir); and nothing of it outlives the process that started it (package process).
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/lanyard-k8s/lanyard/test/cluster/process"
	"github.com/lanyard-k8s/lanyard/test/cluster/rundir"
)

// Component is a program of the control plane; its text is the program's name.
type Component string

const (
	// Etcd stores everything.
	Etcd Component = "etcd"
	// APIServer is the API server, with admission, policies and the audit log.
	APIServer Component = "kube-apiserver"
	// ControllerManager runs the controllers: jobs, namespaces, service accounts, garbage collection.
	ControllerManager Component = "kube-controller-manager"
	// Scheduler assigns pods to nodes; it runs where there are nodes.
	Scheduler Component = "kube-scheduler"
)

// Options say how to run a control plane. The zero value is a good one.
type Options struct {
	// Out is told what is being waited for; nil is silence.
	Out io.Writer
	// Base is the folder for the folders of runs; empty is rundir.Base.
	Base string
	// APIServerArgs and ControllerArgs are added to the flags of their programs and win over the ones set here.
	APIServerArgs  []string
	ControllerArgs []string
	// Place is where the control plane runs, if not on the loopback address.
	Place Place
}

// startTimeout is what starting may take on a machine that is busy with other things, and stopGrace what each component may
// take to end before it is killed: an API server would wait a minute for a webhook that does not answer.
const (
	startTimeout = 5 * time.Minute
	stopGrace    = 3 * time.Second
)

// ControlPlane is a running control plane. Its methods may be called from several goroutines.
type ControlPlane struct {
	options  Options
	dir      *rundir.Dir
	programs programs
	secrets  secrets
	ports    ports

	mu        sync.Mutex
	processes map[Component]*process.Process
}

// Start builds what is missing, starts a control plane and waits until it is of use: the API server is ready, and the
// controllers have made the default service account. Whoever starts it stops it. If it does not come up, the error ends with
// the last lines of the log of the component that is to blame, and the folder with all logs is kept until the next start.
func Start(ctx context.Context, options Options) (*ControlPlane, error) {
	if options.Out == nil {
		options.Out = io.Discard
	}
	if options.Base == "" {
		options.Base = rundir.Base()
	}
	built, err := buildPrograms(ctx, options.Out)
	if err != nil {
		return nil, err
	}
	dir, err := rundir.New(options.Base)
	if err != nil {
		return nil, err
	}
	cp := &ControlPlane{options: options, dir: dir, programs: built, processes: map[Component]*process.Process{}}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready within %s", startTimeout))
	defer cancel()
	if err := cp.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the control plane: %w", err), cp.Abandon())
	}
	return cp, nil
}

// start does what Start does once there is a folder.
func (cp *ControlPlane) start(ctx context.Context) error {
	begin := time.Now()
	if err := cp.prepare(); err != nil {
		return err
	}
	if err := cp.launch(Etcd); err != nil {
		return err
	}
	if err := cp.launch(APIServer); err != nil {
		return err
	}
	if err := cp.awaitReady(ctx); err != nil {
		return err
	}
	if err := cp.launch(ControllerManager); err != nil {
		return err
	}
	if cp.options.Place.hasNodes() {
		if err := cp.launch(Scheduler); err != nil {
			return err
		}
	}
	if err := cp.AwaitServiceAccount(ctx, "default"); err != nil {
		return err
	}
	fmt.Fprintf(cp.options.Out, "Kubernetes %s ready at %s after %s\n",
		cp.programs.version, cp.URL(), time.Since(begin).Round(100*time.Millisecond))
	return nil
}

// launch starts a component; it does not wait for it.
func (cp *ControlPlane) launch(c Component) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	path, args := cp.options.Place.command(cp.programPath(c), cp.arguments(c))
	p, err := cp.StartProcess(string(c), path, args...)
	if err != nil {
		return err
	}
	cp.processes[c] = p
	return nil
}

// StartProcess runs another program beside the components, with its log among theirs and with the same promise that it ends
// when this process does. Whoever starts it stops it, before Stop.
func (cp *ControlPlane) StartProcess(name, path string, args ...string) (*process.Process, error) {
	return process.Start(process.Spec{
		Name: name, Path: path, Args: args, Log: cp.Path("log", name+".log"), Guard: cp.programs.guard,
	})
}

// Path returns the path of something in the run's folder, which Stop removes.
func (cp *ControlPlane) Path(elements ...string) string { return cp.dir.Path(elements...) }

// Port returns a free port of the loopback address that stays this run's until Stop.
func (cp *ControlPlane) Port() (int, error) { return cp.dir.Port() }

// Stop ends every component and removes the run's folder. Components that have not ended in time, or when ctx is done, are
// killed; none is left when Stop returns.
func (cp *ControlPlane) Stop(ctx context.Context) error {
	return errors.Join(cp.stopProcesses(ctx), cp.dir.Remove())
}

// Abandon ends every component at once and leaves the folder to be looked at, until the next start of any control plane.
func (cp *ControlPlane) Abandon() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return errors.Join(cp.stopProcesses(ctx), cp.dir.Abandon())
}

// stopProcesses ends the components in the order in which they lean on each other: an API server without etcd, and
// controllers without an API server, would wait in vain.
func (cp *ControlPlane) stopProcesses(ctx context.Context) error {
	cp.mu.Lock()
	running := maps.Clone(cp.processes)
	cp.mu.Unlock()
	var errs []error
	for _, c := range []Component{Scheduler, ControllerManager, APIServer, Etcd} {
		if p := running[c]; p != nil {
			errs = append(errs, p.Stop(ctx, stopGrace))
		}
	}
	return errors.Join(errs...)
}
