package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"sync"
	"syscall"
	"time"
)

// heartbeat is how long nothing may be printed before testsum says what is still running.
const heartbeat = 30 * time.Second

// outcome is one group's `go test`, run to its end.
type outcome struct {
	group
	*tally
	ok   bool
	took time.Duration
}

// run runs the groups one after the other, those that run beside others from when the group before them starts, prints the
// summary, and says whether everything passed. A failed group does not stop the next.
func run(ctx context.Context, w io.Writer, groups []group) bool {
	w = &turns{w: w}
	outcomes := make([]*outcome, len(groups))
	var beside sync.WaitGroup
	for i, g := range groups {
		if g.beside || ctx.Err() != nil {
			continue
		}
		for j := i + 1; j < len(groups) && groups[j].beside; j++ {
			beside.Go(func() { outcomes[j] = start(ctx, w, groups[j]) })
		}
		outcomes[i] = start(ctx, w, g)
	}
	beside.Wait()
	var ran []outcome
	for _, o := range outcomes {
		if o != nil {
			ran = append(ran, *o)
		}
	}
	return summarise(w, ran) && len(ran) == len(groups)
}

func start(ctx context.Context, w io.Writer, g group) *outcome {
	fmt.Fprintf(w, "--- %s: go test %s\n", g.name, g)
	o := runGroup(ctx, w, g)
	return &o
}

// turns lets several groups print, one whole write at a time.
type turns struct {
	mu sync.Mutex
	w  io.Writer
}

func (t *turns) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w.Write(p)
}

// runGroup runs one `go test -json` and streams its packages.
func runGroup(ctx context.Context, w io.Writer, g group) outcome {
	start := time.Now()
	out := outcome{group: g, tally: newTally()}
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, g.args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) } // go test passes it on to its children
	cmd.WaitDelay = time.Minute
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(w, "start go test:", err)
		out.failed++
		return out
	}
	stream(w, stdout, g.name, out.tally)
	out.ok = cmd.Wait() == nil
	if !out.ok && out.failed == 0 {
		out.failed++ // go test itself failed: a bad flag, a pattern without packages, an interrupt
	}
	out.took = time.Since(start)
	return out
}

// stream feeds the events into the tally, prints every package that ends, and what is running when it has been quiet.
func stream(w io.Writer, r io.Reader, name string, t *tally) {
	lines := make(chan string)
	go func() {
		defer close(lines)
		br := bufio.NewReader(r)
		for {
			line, err := br.ReadString('\n')
			if line != "" {
				lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	start, quiet := time.Now(), time.NewTimer(heartbeat)
	for {
		select {
		case line, more := <-lines:
			if !more {
				return
			}
			if takeLine(w, t, line) {
				quiet.Reset(heartbeat)
			}
		case <-quiet.C:
			fmt.Fprintf(w, "... %s, %s: %s\n", name, time.Since(start).Round(time.Second), doing(t, time.Now()))
			quiet.Reset(heartbeat)
		}
	}
}

// takeLine handles one line of go test's output and says whether anything was printed.
func takeLine(w io.Writer, t *tally, line string) bool {
	var e event
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		fmt.Fprint(w, line) // not every complaint of go test is JSON
		return true
	}
	res, ended := t.add(e)
	if !ended || res.verdict == "none" {
		return false
	}
	fmt.Fprint(w, res.failures+res.closing+"\n")
	return true
}

// doing says what has been running for longest, in which package and for how long: what hangs is soon the first.
func doing(t *tally, now time.Time) string {
	ks := t.running()
	if len(ks) == 0 {
		return "building"
	}
	text := fmt.Sprintf("running %s of %s for %s", ks[0].test, path.Base(ks[0].pkg), max(now.Sub(t.since[ks[0]]), 0).Round(time.Second))
	if len(ks) > 1 {
		text += fmt.Sprintf(" and %d more", len(ks)-1)
	}
	return text
}
