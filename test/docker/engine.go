//go:build linux

package docker

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/moby/moby/client"

	"github.com/lanyard-k8s/lanyard/test/cluster/rundir"
)

//go:embed home.sh
var home string

const (
	// gateway is the bridge's address. Each Engine has a network of its own, so all may have the same.
	gateway = "10.213.0.1"
	bridge  = gateway + "/20"
	// upWithin is how long dockerd may take to answer, on a machine that does a lot besides.
	upWithin = 5 * time.Minute
)

// Options say what the Engine is like.
type Options struct {
	// LiveRestore keeps containers running while dockerd is away.
	LiveRestore bool
	// HostGatewayIP is what the Engine takes for the machine's address in containers' hosts ("host-gateway"), if not the bridge's.
	HostGatewayIP string
}

// Engine is a running dockerd. Its methods may be called from several goroutines.
type Engine struct {
	dir    *rundir.Dir
	cgroup string
	cmd    *exec.Cmd

	mu      sync.Mutex // one order at a time
	orders  io.WriteCloser
	answers *bufio.Reader
	once    sync.Once
}

// Start starts an Engine and returns once it answers. Stop must be called.
func Start(ctx context.Context, o Options) (*Engine, error) {
	if why := Unavailable(); why != "" {
		return nil, errors.New(why)
	}
	dir, err := rundir.New(rundir.Base())
	if err != nil {
		return nil, err
	}
	e := &Engine{dir: dir, cgroup: cgroupPrefix + filepath.Base(dir.Path())}
	sweepCgroups(filepath.Dir(dir.Path()))
	if err := e.move(o); err != nil {
		return nil, errors.Join(fmt.Errorf("make a home for dockerd: %w", err), e.Stop())
	}
	if err := e.Resume(ctx); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e, nil
}

// move starts the first process of the namespaces.
func (e *Engine) move(o Options) error {
	data := e.dir.Path("data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	dockerd, err := locate("dockerd")
	if err != nil {
		return err
	}
	e.cmd = exec.Command("/bin/sh", append([]string{"-c", home, "sh", data, e.log(), dockerd}, e.arguments(o, data)...)...)
	e.cmd.Env = append(os.Environ(), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	e.cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:    true, // a terminal's ^C is the test's affair
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID,
	}
	var said strings.Builder
	e.cmd.Stderr = &said
	if e.orders, err = e.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	e.answers = bufio.NewReader(out)
	if err := e.cmd.Start(); err != nil {
		e.cmd = nil
		return err
	}
	if _, err := e.answers.ReadString('\n'); err != nil {
		_ = e.cmd.Wait()
		e.cmd = nil
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(said.String()))
	}
	return nil
}

// arguments are dockerd's. Everything that it writes is below the run's folder or in the home's own /run.
func (e *Engine) arguments(o Options, data string) []string {
	args := []string{
		"--host", e.Host(), "--group", "root", "--data-root", data, "--log-level", "warn", "--config-file", "/run/daemon.json", "--bip", bridge,
		"--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", "/" + e.cgroup,
	}
	if o.LiveRestore {
		args = append(args, "--live-restore")
	}
	if o.HostGatewayIP != "" {
		args = append(args, "--host-gateway-ip", o.HostGatewayIP)
	}
	return args
}

func (e *Engine) log() string { return e.dir.Path("dockerd.log") }

// Host is the address of the Engine's API, "unix:///...". The socket is reached from everywhere on the machine.
func (e *Engine) Host() string { return "unix://" + e.dir.Path("docker.sock") }

// Gateway is the address at which containers reach what Listen and Command run.
func (e *Engine) Gateway() netip.Addr { return netip.MustParseAddr(gateway) }

// Client speaks to the Engine.
func (e *Engine) Client() (*client.Client, error) { return client.New(client.WithHost(e.Host())) }

// order hands a word to the first process, and waits until it was done.
func (e *Engine) order(word string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := io.WriteString(e.orders, word+"\n"); err != nil {
		return fmt.Errorf("order %q: %w", word, err)
	}
	if _, err := e.answers.ReadString('\n'); err != nil {
		return fmt.Errorf("order %q: %w", word, err)
	}
	return nil
}

// Interrupt ends dockerd as a shutdown does and waits until it is gone: with it the containers, but for LiveRestore.
func (e *Engine) Interrupt() error { return e.order("down") }

// Kill ends dockerd as kill -9 does.
func (e *Engine) Kill() error { return e.order("kill") }

// Resume starts dockerd again and waits until it answers.
func (e *Engine) Resume(ctx context.Context) error {
	if err := e.order("up"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, upWithin)
	defer cancel()
	c, err := e.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		if _, err = c.Ping(ctx, client.PingOptions{}); err == nil {
			tick.Stop()
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for dockerd: %w; the end of its log:\n%s", err, e.Tail())
		case <-tick.C:
		}
	}
}

// Restart is Interrupt and Resume.
func (e *Engine) Restart(ctx context.Context) error {
	return errors.Join(e.Interrupt(), e.Resume(ctx))
}

// Tail is the end of dockerd's log, for the message of a failed test.
func (e *Engine) Tail() string {
	b, err := os.ReadFile(e.log())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-3<<10):])
}

// Stop ends the Engine and everything in it, and removes what it had written. Calling it again does nothing.
func (e *Engine) Stop() (err error) {
	e.once.Do(func() {
		if e.cmd != nil {
			// The first process takes the namespaces with it; no other process of the machine is in them.
			_ = e.cmd.Process.Kill()
			_ = e.cmd.Wait()
		}
		err = errors.Join(removeCgroups(e.cgroup), e.dir.Remove())
	})
	return err
}
