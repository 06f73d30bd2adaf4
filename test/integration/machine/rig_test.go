//go:build linux

package machine

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/api/jobs"
	"github.com/lanyard-k8s/lanyard/test/docker"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// The users of the machine, by numbers that nobody has, and the group of those who submit.
const (
	alice = 20001
	bob   = 20002
	carol = 20003 // is not listed, and has no name
	group = 20000
)

// house is an exchange of a test's own on an Engine.
type house struct {
	t       *testing.T
	w       *world
	engine  *docker.Engine
	dir     string
	port    string
	metrics string
	through []string // what the program is started through, to have less power than the tests

	cmd *exec.Cmd
	log buffer
}

// house starts an exchange on the shared Engine.
func (w *world) house(t *testing.T, more string) *house {
	t.Helper()
	if w.absent != "" {
		t.Skip("SKIPPED: " + w.absent)
	}
	h := w.prepare(t, w.engine, more)
	h.start()
	h.ready()
	return h
}

// prepare writes the configuration.
func (w *world) prepare(t *testing.T, e *docker.Engine, more string) *house {
	t.Helper()
	dir, err := os.MkdirTemp(w.dir, "house-")
	must(t, err)
	must(t, os.Chmod(dir, 0o755))
	h := &house{t: t, w: w, engine: e, dir: dir, port: freePort(t, e), metrics: freePort(t, e)}
	h.configure(more)
	t.Cleanup(h.end)
	return h
}

func (h *house) configure(more string) {
	h.t.Helper()
	config := fmt.Sprintf(`issuer: https://build-1.example
docker:
  instance: %s
  stateDirectory: %s/state
  engine: %s
  socket: %s
  group: "%d"
  submitters: {%d: alice@example.com, %d: bob@example.com}
  listen: ["127.0.0.1:%s", "bridge:%s"]
%s
`, strings.ToLower(filepath.Base(h.dir)), h.dir, h.engine.Host(), h.socket(), group, alice, bob, h.port, h.port, more)
	must(h.t, os.WriteFile(h.dir+"/exchange.yaml", []byte(config), 0o600))
}

func (h *house) socket() string { return h.dir + "/run/submit.sock" }

// start starts the program in the Engine's network.
func (h *house) start() {
	h.t.Helper()
	args := append(h.through[:len(h.through):len(h.through)], h.w.exchange, "--backend", "docker", "--config", h.dir+"/exchange.yaml",
		"--metrics-listen", "127.0.0.1:"+h.metrics, "--log-level", "debug")
	h.cmd = h.engine.Command(context.WithoutCancel(h.t.Context()), args[0], args[1:]...)
	h.cmd.Stderr = &h.log
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(h.t, h.cmd.Start())
}

func (h *house) said() string { return h.log.String() }

// kill ends the program as kill -9 does.
func (h *house) kill() {
	h.t.Helper()
	must(h.t, syscall.Kill(-h.cmd.Process.Pid, syscall.SIGKILL))
	_ = h.cmd.Wait()
}

// terminate ends it as an operator does, and checks that it ends well.
func (h *house) terminate() error {
	if err := syscall.Kill(-h.cmd.Process.Pid, syscall.SIGTERM); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- h.cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(90 * time.Second):
		_ = syscall.Kill(-h.cmd.Process.Pid, syscall.SIGKILL)
		return errors.Join(errors.New("it did not end within 90 s"), <-ended)
	}
}

// end cleans up after a test, and looks for what must never be in a log.
func (h *house) end() {
	if h.cmd != nil && h.cmd.ProcessState == nil {
		if err := h.terminate(); err != nil {
			h.t.Errorf("the exchange ended with %v", err)
		}
	}
	h.removeContainers()
	log := h.said()
	for _, secret := range []string{"nmp_obo_v1", "eyJ", "PRIVATE KEY", marked} {
		if strings.Contains(log, secret) {
			h.t.Errorf("the log holds %q", secret)
		}
	}
	if h.t.Failed() {
		h.t.Logf("the end of the exchange's log:\n%s", log[max(0, len(log)-6000):])
	}
}

// marked is a value that tests give to variables.
const marked = "m4rk3d-v4lu3"

// ready waits until jobs are taken.
func (h *house) ready() {
	h.t.Helper()
	timing.Within(h.t, time.Minute, "the exchange takes jobs: "+h.said(), func() bool {
		code, out := h.as(alice, "jobs", "list")
		return code == 0 && strings.Contains(out, "no jobs") && strings.Contains(h.page("/metrics"), "lanyard_exchange_ready 1")
	})
}

// user is a process of a user of the machine.
func (h *house) user(uid uint32, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(h.t.Context(), h.w.lanyard, args...)
	cmd.Env = []string{"LANYARD_SOCKET=" + h.socket(), "PATH=/usr/bin:/bin"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: group}}
	return cmd
}

// as runs the user's command, and returns its exit code and all that it said.
func (h *house) as(uid uint32, args ...string) (int, string) {
	h.t.Helper()
	out, err := h.user(uid, args...).CombinedOutput()
	return exitCode(h.t, err), string(out)
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	default:
		t.Fatal(err)
		return -1
	}
}

// list is what a user sees of jobs.
func (h *house) list(uid uint32) []jobs.Job {
	h.t.Helper()
	out, err := h.user(uid, "jobs", "list", "-o", "json").Output()
	must(h.t, err)
	var l jobs.List
	must(h.t, json.Unmarshal(out, &l))
	return l.Jobs
}

// client is an HTTP client in the Engine's network that trusts what the exchange tells the machine's users.
func (h *house) client() *http.Client {
	h.t.Helper()
	ca, err := os.ReadFile(h.dir + "/run/ca.crt")
	must(h.t, err)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		h.t.Fatal("ca.crt holds no certificate")
	}
	c := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return h.engine.Dial(ctx, address) },
	}}
	return c
}

// page is a page of the metrics listener; empty if there is none.
func (h *house) page(path string) string {
	c := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, address string) (net.Conn, error) { return h.engine.Dial(ctx, address) },
	}}
	resp, err := c.Get("http://127.0.0.1:" + h.metrics + path)
	if err != nil {
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	var b bytes.Buffer
	_, _ = b.ReadFrom(resp.Body)
	return b.String()
}

// freePort is a port that nobody listens on in the Engine's network.
func freePort(t *testing.T, e *docker.Engine) string {
	t.Helper()
	l, err := e.Listen(t.Context(), e.Gateway().String()+":0")
	must(t, err)
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	return port
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
