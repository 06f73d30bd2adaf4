//go:build unix

package nodes_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes"
	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/slot"
)

// childMark, when set in the environment, makes this test program start a cluster and wait to be killed.
const childMark = "LANYARD_TEST_NODES_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childMark) != "" {
		os.Exit(runChild())
	}
	os.Exit(m.Run())
}

// runChild starts a cluster, says what it is called and where it is, and waits for the end.
func runChild() int {
	c, err := nodes.Start(context.Background(), nodes.Options{Out: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(c.Prefix(), c.Dir())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// TestKilledParent kills the process that has started a cluster: every process of the cluster ends at once, and the next
// start, or Sweep, clears away the rest.
func TestKilledParent(t *testing.T) {
	skipUnavailable(t)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childMark+"=1")
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
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	prefix, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
	ours := holder(prefix)
	if err := child.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	await(t, patience, "the cluster's processes are gone", func(context.Context) (bool, string) {
		running := processes(t, prefix, dir)
		return len(running) == 0, strings.Join(running, "\n")
	})
	// Another test's cluster may start meanwhile. It clears away the same, and takes the slot and its names.
	before := leftovers(t, prefix, dir)
	if len(before) == 0 && holder(prefix) == ours {
		t.Fatal("nothing is left to clear away, so this test would see nothing")
	}
	if err := nodes.Sweep(); err != nil {
		t.Fatal(err)
	}
	after := leftovers(t, prefix, dir)
	if holder(prefix) == ours {
		t.Errorf("slot %s is still marked as held by the killed process", prefix)
	}
	// The folder goes with the next start of whatever control plane.
	for _, left := range after {
		if left != dir && (holder(prefix) == "" || strings.Contains(left, dir)) {
			t.Error("left behind: " + left)
		}
	}
}

// holder is the process that holds a cluster's slot, or held it when it was killed; empty for nobody.
func holder(prefix string) string {
	pid, err := os.ReadFile(filepath.Join(slot.Base, "slot-"+strings.TrimPrefix(prefix, "lanyard")+".pid"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(pid))
}

// processes returns the processes of a cluster: those that name its folder, and those in its nodes' cgroups.
func processes(t *testing.T, prefix, dir string) []string {
	t.Helper()
	out, err := exec.Command("ps", "-A", "-ww", "-o", "pid=,cgroup:200=,args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, dir) || strings.Contains(line, "/"+prefix+"-") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}
