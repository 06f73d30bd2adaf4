//go:build unix

package cluster_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/test/cluster"
)

// childBase, when set in the environment, makes this test program start a control plane there and wait to be killed.
const childBase = "LANYARD_TEST_CHILD_BASE"

func TestMain(m *testing.M) {
	if base := os.Getenv(childBase); base != "" {
		os.Exit(runChild(base))
	}
	os.Exit(m.Run())
}

// runChild starts a control plane, says where it is, and waits for the end.
func runChild(base string) int {
	cp, err := cluster.Start(context.Background(), cluster.Options{Out: os.Stderr, Base: base})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(cp.Path())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

func TestKilledParentLeavesNothing(t *testing.T) {
	t.Parallel()
	base := newBase(t)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childBase+"="+base)
	child.Stderr = t.Output()
	// The child waits as long as this pipe is open.
	if _, err := child.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	path, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	path = strings.TrimSpace(path)
	if len(processes(t, path)) < 3 {
		t.Fatalf("the child's control plane is not there: %q", processes(t, path))
	}
	if err := child.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for left := processes(t, path); len(left) > 0; left = processes(t, path) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("processes left: %s", strings.Join(left, "\n"))
		}
	}
	start(t, base)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the next start has not swept the folder: %v", err)
	}
}

// processes returns the command lines of the processes that mention the folder of a run.
func processes(t *testing.T, path string) []string {
	t.Helper()
	out, err := exec.Command("ps", "-A", "-ww", "-o", "pid=,args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, path) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}
