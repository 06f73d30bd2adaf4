//go:build linux

package docker_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/lanyard-k8s/lanyard/test/docker"
)

// run runs the probe to its end and returns what it said.
func run(t *testing.T, e *docker.Engine, args ...string) string {
	t.Helper()
	c, err := e.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	id := create(t, c, args...)
	waiting := c.ContainerWait(t.Context(), id, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	if _, err := c.ContainerStart(t.Context(), id, client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-waiting.Result:
	case err := <-waiting.Error:
		t.Fatal(err)
	}
	logs, err := c.ContainerLogs(t.Context(), id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	var said bytes.Buffer
	if _, err := stdcopy.StdCopy(&said, &said, logs); err != nil {
		t.Fatal(err)
	}
	return said.String()
}

func create(t *testing.T, c *client.Client, args ...string) string {
	t.Helper()
	made, err := c.ContainerCreate(t.Context(), client.ContainerCreateOptions{Config: &container.Config{Image: docker.ProbeImage, Cmd: args}})
	if err != nil {
		t.Fatal(err)
	}
	return made.ID
}

// TestHome runs a container that reaches a server on the bridge's gateway, and looks for what is left of the Engine afterwards.
func TestHome(t *testing.T) {
	t.Parallel()
	e := docker.ForTest(t, docker.Options{})
	if got := run(t, e, "say", "hello", "status", "Uid"); !strings.HasPrefix(got, "hello\n65532") {
		t.Errorf("the container said %q", got)
	}
	l, err := e.Listen(t.Context(), fmt.Sprintf("%s:0", e.Gateway()))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan string, 1)
	go func() {
		if conn, err := l.Accept(); err == nil {
			accepted <- conn.RemoteAddr().String()
			_ = conn.Close()
		}
	}()
	if got := run(t, e, "connect", l.Addr().String()); got != "connected\n" {
		t.Fatalf("the container said %q", got)
	}
	if from := <-accepted; !strings.HasPrefix(from, "10.213.") || strings.HasPrefix(from, e.Gateway().String()+":") {
		t.Errorf("connected from %s", from)
	}
	if err := e.Vary(t.Context(), docker.ProbeImage, "lanyard.test/varied:1", "ENV A=b"); err != nil {
		t.Error(err)
	}
	socket := strings.TrimPrefix(e.Host(), "unix://")
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{socket, "/sys/fs/cgroup/*/lanyard-docker-" + filepath.Base(filepath.Dir(socket))} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			t.Errorf("left behind: %v", found)
		}
	}
	if mounts, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Contains(string(mounts), filepath.Dir(socket)) {
		t.Errorf("a mount was left behind (%v):\n%s", err, mounts)
	}
}

// TestOutage takes dockerd away from a running container, politely and not, and gives it back.
func TestOutage(t *testing.T) {
	t.Parallel()
	e := docker.ForTest(t, docker.Options{LiveRestore: true})
	c, err := e.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	id := create(t, c, "wait")
	if _, err := c.ContainerStart(t.Context(), id, client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, away := range map[string]func() error{"interrupted": e.Interrupt, "killed": e.Kill} {
		if err := away(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if _, err := c.Ping(ctx, client.PingOptions{}); err == nil {
			t.Errorf("%s, and it answers", name)
		}
		cancel()
		if err := e.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := c.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
		if err != nil || !got.Container.State.Running {
			t.Errorf("%s: the container does not run any more (%v)\n%s", name, err, e.Tail())
		}
	}
}
