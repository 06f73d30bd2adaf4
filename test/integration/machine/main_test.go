//go:build linux

package machine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/lanyard-k8s/lanyard/test/cluster/program"
	"github.com/lanyard-k8s/lanyard/test/docker"
)

// plainImage is an image of nothing but the program in the folder plain.
const plainImage = "lanyard.test/plain:1"

// world is the Engine and the built programs. Tests that take the Engine away start one of their own.
type world struct {
	absent   string // why there is no Engine
	engine   *docker.Engine
	dir      string // that other users may read
	exchange string
	lanyard  string
}

// shared is TestMain's; nothing changes it afterwards.
var shared *world

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if why := docker.Unavailable(); why != "" {
		shared = &world{absent: why}
		return m.Run()
	}
	w, err := newWorld(context.Background())
	if w != nil {
		defer w.stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	shared = w
	return m.Run()
}

func newWorld(ctx context.Context) (*world, error) {
	dir, err := os.MkdirTemp("", "lanyard-machine-")
	if err != nil {
		return nil, err
	}
	w := &world{dir: dir}
	if err := os.Chmod(dir, 0o755); err != nil { // other users run the programs in it
		return w, err
	}
	tree, err := program.Tree()
	if err != nil {
		return w, err
	}
	for name, into := range map[string]*string{"exchange": &w.exchange, "lanyard": &w.lanyard} {
		*into = filepath.Join(dir, name)
		if err := build(ctx, tree, *into, "./cmd/"+name, os.Environ()); err != nil {
			return w, err
		}
	}
	if w.engine, err = docker.Start(ctx, docker.Options{}); err != nil {
		return w, err
	}
	return w, load(ctx, w.engine, tree, dir)
}

// load puts both images onto an Engine.
func load(ctx context.Context, e *docker.Engine, tree, dir string) error {
	if err := e.Probe(ctx); err != nil {
		return err
	}
	plain, archive := filepath.Join(dir, "plain"), filepath.Join(dir, "plain.tar")
	// The image has no libraries.
	if err := build(ctx, tree, plain, "./test/integration/machine/plain", append(os.Environ(), "CGO_ENABLED=0")); err != nil {
		return err
	}
	pack := exec.CommandContext(ctx, "go", "run", "./internal/image", "-arch", runtime.GOARCH, "-tag", plainImage, "-entrypoint", "/plain", "-out", archive, plain)
	pack.Dir = tree
	if out, err := pack.CombinedOutput(); err != nil {
		return fmt.Errorf("pack an image: %w: %s", err, out)
	}
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return e.Load(ctx, f)
}

func build(ctx context.Context, tree, out, path string, env []string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", out, path)
	cmd.Dir, cmd.Env = tree, env
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", path, err, text)
	}
	return nil
}

func (w *world) stop() {
	if w.engine != nil {
		if err := w.engine.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	if err := os.RemoveAll(w.dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
