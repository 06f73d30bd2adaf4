//go:build linux

package docker

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"

	"github.com/moby/moby/client"

	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// ProbeImage is the image that Probe loads. Its only program is /probe, run as uid 65532; see the folder probe for what it
// can do.
const ProbeImage = "lanyard.test/probe:1"

// Load loads a docker-archive.
func (e *Engine) Load(ctx context.Context, archive io.Reader) error {
	c, err := e.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	answer, err := c.ImageLoad(ctx, archive, client.ImageLoadWithQuiet(true))
	if err != nil {
		return fmt.Errorf("load an image: %w", err)
	}
	_, err = io.Copy(io.Discard, answer)
	if closed := answer.Close(); err == nil {
		err = closed
	}
	return err
}

// Probe builds the test program, packs it as internal/image does, and loads it as ProbeImage.
func (e *Engine) Probe(ctx context.Context) error {
	tree, err := program.Tree()
	if err != nil {
		return err
	}
	probe, archive := e.dir.Path("probe"), e.dir.Path("probe.tar")
	if err := tool(ctx, tree, "build", "-o", probe, "./test/docker/probe"); err != nil {
		return err
	}
	if err := tool(ctx, tree, "run", "./internal/image", "-arch", runtime.GOARCH, "-tag", ProbeImage, "-entrypoint", "/probe", "-out", archive, probe); err != nil {
		return err
	}
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	return e.Load(ctx, f)
}

// tool runs the go command; without cgo what it builds needs no libraries, of which the image has none.
func tool(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w: %s", args[0], err, out)
	}
	return nil
}

// Vary makes another image of one that is there: its configuration is changed by instructions as a Dockerfile has them, such as
// "ENV A=b" or "USER 0".
func (e *Engine) Vary(ctx context.Context, from, name string, changes ...string) error {
	c, err := e.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	made, err := c.ContainerCreate(ctx, client.ContainerCreateOptions{Image: from})
	if err != nil {
		return fmt.Errorf("vary an image: %w", err)
	}
	if _, err := c.ContainerCommit(ctx, made.ID, client.ContainerCommitOptions{Reference: name, Changes: changes}); err != nil {
		return fmt.Errorf("vary an image: %w", err)
	}
	_, err = c.ContainerRemove(ctx, made.ID, client.ContainerRemoveOptions{Force: true})
	return err
}
