//go:build linux

package machine

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
	"github.com/lanyard-k8s/lanyard/test/docker"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// gate is an address on the bridge at which nobody listens until the test opens it.
type gate struct {
	h       *house
	address string
}

func (h *house) gate() *gate {
	return &gate{h, h.engine.Gateway().String() + ":" + freePort(h.t, h.engine)}
}

func (g *gate) open() {
	g.h.t.Helper()
	var l net.Listener
	timing.Within(g.h.t, time.Minute, "the gate opens", func() (ok bool) {
		var err error
		l, err = g.h.engine.Listen(g.h.t.Context(), g.address)
		return err == nil
	})
	g.h.t.Cleanup(func() { _ = l.Close() })
}

// running is a user's command under way.
type running struct {
	cmd       *exec.Cmd
	out, errs buffer
	ended     chan error
}

// buffer is read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (h *house) begin(uid uint32, args ...string) *running {
	h.t.Helper()
	r := &running{cmd: h.user(uid, args...), ended: make(chan error, 1)}
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.errs
	must(h.t, r.cmd.Start())
	go func() { r.ended <- r.cmd.Wait() }()
	return r
}

// TestTheExchangeIsKilledUnderARunningJob: the job goes on, its submitter's command finds the next exchange, misses no byte of the
// output, and the container exchanges its proof as before.
func TestTheExchangeIsKilledUnderARunningJob(t *testing.T) {
	t.Parallel()
	h := shared.house(t, "")
	g := h.gate()
	r := h.begin(alice, "run", "--image", plainImage, "--job", "long", "--", "exchange", "docker", "out", "first", "err", "aside",
		"until", g.address, "exchange", "docker", "out", "last", "exit", "5")
	timing.Within(t, time.Minute, "the job runs", func() bool { return strings.Contains(r.out.String(), "first") })
	ca, err := os.ReadFile(h.dir + "/run/ca.crt")
	must(t, err)
	h.kill()
	timing.Within(t, time.Minute, "the user is told", func() bool { return strings.Contains(r.errs.String(), "the job goes on") })
	h.start()
	timing.Within(t, time.Minute, "the exchange is back", func() bool {
		found := h.tryList(alice)
		return strings.Contains(found, "long") && strings.Contains(found, "running")
	})
	if now, err := os.ReadFile(h.dir + "/run/ca.crt"); err != nil || !bytes.Equal(now, ca) {
		t.Errorf("the authority is another one: %v", err)
	}
	g.open()
	if code := exitCode(t, <-r.ended); code != 5 {
		t.Errorf("exit code %d: %s", code, r.errs.String())
	}
	lines := strings.Split(strings.TrimSpace(r.out.String()), "\n")
	if len(lines) != 4 || lines[1] != "first" || lines[3] != "last" {
		t.Errorf("the output: %q", lines)
	}
	if a, b := claims(t, lines[0]), claims(t, lines[2]); a["sub"] != "alice@example.com" || b["sub"] != a["sub"] || actor(a) != actor(b) {
		t.Errorf("claims %v and %v", a, b)
	}
	if strings.Count(r.errs.String(), "aside") != 1 {
		t.Errorf("stderr: %q", r.errs.String())
	}
}

// tryList is what `jobs list` prints, whatever comes of it.
func (h *house) tryList(uid uint32) string {
	_, out := h.as(uid, "jobs", "list")
	return out
}

// TestCtrlCStopsTheJob: once; and twice leaves it to stop by itself. Being killed leaves it alone, unless it was tied to its user.
func TestCtrlCStopsTheJob(t *testing.T) {
	t.Parallel()
	h := shared.house(t, "")
	start := func(job string, more ...string) *running {
		r := h.begin(alice, append(append([]string{"run", "--image", "lanyard.test/probe:1", "--job", job}, more...), "--", "say", "on", "wait")...)
		timing.Within(t, time.Minute, job+" runs", func() bool { return strings.Contains(r.out.String(), "on") })
		return r
	}
	polite := start("polite")
	must(t, polite.cmd.Process.Signal(os.Interrupt))
	if code := exitCode(t, <-polite.ended); code != 0 { // the probe ends with 0 when it is told to
		t.Errorf("after Ctrl-C: %d %s", code, polite.errs.String())
	}
	killed := start("killed")
	must(t, killed.cmd.Process.Kill())
	<-killed.ended
	tied := start("tied", "--stop-when-gone")
	must(t, tied.cmd.Process.Kill())
	<-tied.ended
	states := func() string {
		var b strings.Builder
		for _, j := range h.list(alice) {
			fmt.Fprintf(&b, "%s %s\n", j.Job, j.State)
		}
		return b.String()
	}
	timing.Within(t, time.Minute, "the tied job is stopped", func() bool { return strings.Contains(states(), "tied ended") })
	if got := states(); !strings.Contains(got, "killed running") || !strings.Contains(got, "polite ended") {
		t.Errorf("jobs: %s", got)
	}
	// The plain program does not heed SIGTERM as the first process of a container: it is killed after ten seconds.
	g := h.gate()
	twice := h.begin(alice, "run", "--image", plainImage, "--job", "twice", "--", "out", "on", "until", g.address)
	timing.Within(t, time.Minute, "twice runs", func() bool { return strings.Contains(twice.out.String(), "on") })
	must(t, twice.cmd.Process.Signal(syscall.SIGTERM))
	must(t, twice.cmd.Process.Signal(syscall.SIGINT))
	if code := exitCode(t, <-twice.ended); code != 130 {
		t.Errorf("after the second: %d %s", code, twice.errs.String())
	}
	timing.Within(t, time.Minute, "it is stopped all the same", func() bool { return strings.Contains(states(), "twice ended") })
}

// TestTheEngineIsAway at the start and under a running job: the exchange serves its keys all the same, users are told to come again,
// and no proof is refused for it.
func TestTheEngineIsAway(t *testing.T) {
	t.Parallel()
	if shared.absent != "" {
		t.Skip("SKIPPED: " + shared.absent)
	}
	e, err := docker.Start(t.Context(), docker.Options{LiveRestore: true})
	must(t, err)
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
	tree, err := program.Tree()
	must(t, err)
	dir, err := os.MkdirTemp(shared.dir, "images-")
	must(t, err)
	must(t, load(t.Context(), e, tree, dir))
	h := shared.prepare(t, e, "")
	must(t, e.Interrupt())
	h.start()
	timing.Within(t, time.Minute, "the exchange is up without an Engine", func() bool { return strings.Contains(h.page("/readyz"), "ready") })
	if resp, err := h.client().Get("https://127.0.0.1:" + h.port + wire.PathJWKS); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("the keys: %v", err)
	} else {
		_ = resp.Body.Close()
	}
	for _, args := range [][]string{{"run", "--image", plainImage}, {"jobs", "list"}, {"jobs", "wait", "0a1b2c3d4e5f"}} {
		want := 3
		if args[0] == "run" {
			want = 125
		}
		if code, out := h.as(alice, args...); code != want || !strings.Contains(out, "the Docker Engine is unavailable") {
			t.Errorf("%v: %d %s", args, code, out)
		}
	}
	must(t, e.Resume(t.Context()))
	h.ready()
	proof := h.proof(alice, "wait")
	r := h.begin(alice, "run", "--image", "lanyard.test/probe:1", "--job", "shown", "--", "say", "on", "wait")
	timing.Within(t, time.Minute, "the job is shown", func() bool { return strings.Contains(r.out.String(), "on") })
	must(t, e.Kill())
	timing.Within(t, time.Minute, "the exchange notices", func() bool {
		code, out := h.as(alice, "run", "--image", plainImage)
		return code == 125 && strings.Contains(out, "the Docker Engine is unavailable")
	})
	if status, body := h.exchange(wire.TokenTypeDockerProof, proof); status != http.StatusOK {
		t.Errorf("a proof while the Engine is away: %d %v", status, body)
	}
	must(t, e.Resume(t.Context()))
	timing.Within(t, 2*time.Minute, "jobs are taken again", func() bool {
		code, _ := h.as(alice, "run", "--image", plainImage, "--", "out", "back")
		return code == 0
	})
	if code, out := h.as(alice, "jobs", "stop", "shown"); code != 0 {
		t.Errorf("stop: %d %s", code, out)
	}
	if code := exitCode(t, <-r.ended); code != 0 || strings.Count(r.out.String(), "on\n") != 1 {
		t.Errorf("the shown job: %d %q %q", code, r.out.String(), r.errs.String())
	}
	if status, body := h.exchange(wire.TokenTypeDockerProof, proof); status != http.StatusOK {
		t.Errorf("the other job's proof afterwards: %d %v", status, body)
	}
}

// TestTwoHundredJobsAtOnce: asked for at the same moment on 200 connections, every one runs, prints its own line and no other's, and
// nothing is left.
func TestTwoHundredJobsAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	h := shared.house(t, "")
	h.alsoRoot()
	const all = 200
	c := h.submitter()
	begin, results := make(chan struct{}), make(chan error, all)
	for i := range all {
		go func() {
			<-begin
			results <- c.whole(t.Context(), i)
		}()
	}
	start := time.Now()
	close(begin)
	failed := 0
	for range all {
		if err := <-results; err != nil {
			if failed++; failed <= 5 {
				t.Error(err)
			}
		}
	}
	t.Logf("%d jobs in %s, %d failed", all, time.Since(start).Round(time.Second), failed)
	timing.Within(t, 5*time.Minute, "nothing is left", func() bool { c, v := h.traces(); return len(c)+len(v) == 0 })
}

// TestItStopsWell: SIGTERM ends the program with 0 although somebody looks at a job, which goes on.
func TestItStopsWell(t *testing.T) {
	t.Parallel()
	h := shared.house(t, "")
	r := h.begin(alice, "run", "--image", "lanyard.test/probe:1", "--job", "long", "--", "say", "on", "wait")
	timing.Within(t, time.Minute, "the job runs", func() bool { return strings.Contains(r.out.String(), "on") })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := h.terminate(); err != nil || ctx.Err() != nil {
		t.Fatalf("it ended with %v", err)
	}
	if _, err := os.Lstat(h.socket()); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	timing.Within(t, time.Minute, "the user is told", func() bool { return strings.Contains(r.errs.String(), "the job goes on") })
	h.start()
	timing.Within(t, time.Minute, "the job is known again", func() bool { return strings.Contains(h.tryList(alice), "running") })
	if code, out := h.as(alice, "jobs", "stop", "long"); code != 0 {
		t.Errorf("stop: %d %s", code, out)
	}
	if code := exitCode(t, <-r.ended); code != 0 {
		t.Errorf("the user's command: %d %s", code, r.errs.String())
	}
}
