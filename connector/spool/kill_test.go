package spool

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// childDirectory makes the test binary a child that appends to a spool until it is killed.
const childDirectory = "LANYARD_TEST_SPOOL"

// appendForEver appends from several goroutines, delivers some of it, and writes a line for each batch that was
// acknowledged ("+id") and for each that was delivered ("-id").
func appendForEver(dir string) {
	var mu sync.Mutex
	say := func(sign, id string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf("%s%s\n", sign, id)
	}
	to := newCollector(sink.Log)
	to.before = func(_ context.Context, b sink.Batch) error {
		if rand.N(4) == 0 {
			return errDown
		}
		say("-", b.Events[0].GetId())
		return nil
	}
	s, err := Open(Options{Directory: dir, Bytes: 4 << 20, Group: time.Millisecond, Sinks: []sink.Sink{to}, Decide: allow})
	if err != nil {
		fmt.Println("!" + err.Error())
		os.Exit(1)
	}
	go func() { _ = s.Run(context.Background()) }()
	for p := range 8 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d.%d.%d", os.Getpid(), p, i)
				b := batchOf(fmt.Sprint("publisher", p), id)
				b.Events[0].Message = strings.Repeat("x", rand.N(5000))
				if err := s.Append(context.Background(), b); err == nil {
					say("+", id)
				} else {
					<-time.After(time.Millisecond) // there is no room, until something is delivered
				}
			}
		}()
	}
	select {}
}

// TestKillLosesNothing kills a process that appends, at moments of no choosing, and starts another on the same directory.
// What was acknowledged and not delivered must be read in the end.
func TestKillLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes for some seconds")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "spool")
	acknowledged, reached := map[string]bool{}, map[string]bool{}
	for round := range 20 {
		killOnce(t, dir, 30+rand.N(200), acknowledged, reached)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	to := newCollector(sink.Log)
	o := options(t, to)
	o.Directory, o.Bytes = dir, 4<<20
	o.Hooks.Quarantined = func(r Reason) { t.Errorf("a record is put aside: %s", r) }
	s := opened(t, o)
	running(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	for _, id := range to.got() {
		reached[id] = true
	}
	lost := 0
	for id := range acknowledged {
		if !reached[id] {
			lost++
		}
	}
	if lost > 0 || len(acknowledged) < 20*30 {
		t.Errorf("%d of %d acknowledged batches are lost", lost, len(acknowledged))
	}
	t.Logf("%d acknowledged, %d left for the end", len(acknowledged), len(to.got()))
}

// killOnce starts a child and kills it when it has said enough.
func killOnce(t *testing.T, dir string, lines int, acknowledged, reached map[string]bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), childDirectory+"="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	for n := 0; said.Scan(); n++ {
		switch line := said.Text(); line[0] {
		case '+':
			acknowledged[line[1:]] = true
		case '-':
			reached[line[1:]] = true
		default:
			t.Errorf("the child says %q", line)
		}
		if n == lines {
			_ = child.Process.Kill() // what it has said until then is read to the end
		}
	}
	_ = child.Wait()
	if ctx.Err() != nil {
		t.Errorf("the child said too little in a minute: want %d lines", lines)
	}
}
