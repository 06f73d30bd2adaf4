//go:build unix

package process_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/test/cluster/process"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

func TestProcess(t *testing.T) {
	t.Parallel()
	guard := buildGuard(t)
	cases := map[string]struct {
		script string
		do     func(*process.Process) error
		want   string
	}{
		"what it writes is in its log, whichever stream it uses": {
			script: "echo out; echo err >&2",
			want:   "out\nerr",
		},
		"a request to end lets it end in its own way": {
			script: "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done",
			do:     func(p *process.Process) error { return p.Stop(t.Context(), time.Minute) },
			want:   "up\nbye",
		},
		"one that will not end is killed": {
			script: "trap '' TERM; echo up; while :; do sleep 0.01; done",
			do:     func(p *process.Process) error { return p.Stop(t.Context(), 10*time.Millisecond) },
			want:   "up",
		},
		"one that is paused can be stopped": {
			script: "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done",
			do: func(p *process.Process) error {
				return errors.Join(p.Pause(), p.Stop(t.Context(), time.Minute))
			},
			want: "up\nbye",
		},
		"what it has started ends with it": {
			script: "sleep 1000 & echo up; wait",
			do:     (*process.Process).Kill,
			want:   "up",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startScript(t, guard, tc.script)
			if tc.do != nil {
				awaitLine(t, p)
				if err := tc.do(p); err != nil {
					t.Fatal(err)
				}
			}
			<-p.Done()
			if got := p.Tail(10); got != tc.want {
				t.Errorf("the log is %q, want %q", got, tc.want)
			}
			if err := p.Kill(); !errors.Is(err, process.ErrEnded) {
				t.Errorf("killing it again gave %v, want %v", err, process.ErrEnded)
			}
			if err := p.Stop(t.Context(), 0); err != nil {
				t.Errorf("stopping it again gave %v", err)
			}
		})
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	marker := filepath.Join(t.TempDir(), "marker")
	p := startScript(t, buildGuard(t), "echo up; while [ ! -e "+marker+" ]; do sleep 0.01; done")
	awaitLine(t, p)
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
		t.Error("a paused process went on")
	case <-time.After(200 * time.Millisecond):
	}
	if err := p.Resume(); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
}

// TestPausedIsPausedAtOnce looks at a paused process from the moment that Pause returns, while the machine is kept busy.
func TestPausedIsPausedAtOnce(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: only /proc tells whether a process is stopped")
	}
	guard := buildGuard(t)
	for range 4 {
		startScript(t, guard, "while :; do :; done")
	}
	p := startScript(t, guard, "echo $$; echo up; while :; do :; done")
	awaitLine(t, p)
	pid, _, _ := strings.Cut(p.Tail(2), "\n")
	for range 50 {
		if err := p.Pause(); err != nil {
			t.Fatal(err)
		}
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			t.Fatal(err)
		}
		if _, state, _ := strings.Cut(string(stat), ") "); !strings.HasPrefix(state, "T") {
			t.Fatalf("paused, and in state %.1s", state)
		}
		if err := p.Resume(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPausedWhileItMakesAProcess pauses a shell that makes one process after the other. A shell waits in the kernel until the new process has
// begun; where that was stopped before, together with the shell, the shell is never seen to stop.
func TestPausedWhileItMakesAProcess(t *testing.T) {
	t.Parallel()
	p := startScript(t, buildGuard(t), "trap 'echo bye; exit 0' TERM; echo up; while :; do /bin/true; done")
	awaitLine(t, p)
	for range 200 {
		if err := errors.Join(p.Pause(), p.Resume()); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(p.Pause(), p.Stop(t.Context(), time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got := p.Tail(10); got != "up\nbye" {
		t.Errorf("the log is %q", got)
	}
}

func TestTailOfAMissingProgram(t *testing.T) {
	t.Parallel()
	p, err := process.Start(process.Spec{
		Name: "missing", Path: "/no/such/program", Guard: buildGuard(t), Log: filepath.Join(t.TempDir(), "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if !strings.Contains(p.Tail(5), "/no/such/program") {
		t.Errorf("the log does not say what is missing: %q", p.Tail(5))
	}
}

func buildGuard(t *testing.T) string {
	t.Helper()
	tree, err := program.Tree()
	if err != nil {
		t.Fatal(err)
	}
	path, err := program.Build(t.Context(), t.Output(), program.Source{
		Name: "guard", Dir: tree, Package: "./test/cluster/process/guard", Inputs: []string{"test/cluster/process/guard"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func startScript(t *testing.T, guard, script string) *process.Process {
	t.Helper()
	p, err := process.Start(process.Spec{
		Name: "script", Path: "/bin/sh", Args: []string{"-c", script}, Guard: guard, Log: filepath.Join(t.TempDir(), "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := p.Stop(ctx, 0); err != nil {
			t.Error(err)
		}
	})
	return p
}

// awaitLine waits until the script has said something.
func awaitLine(t *testing.T, p *process.Process) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !strings.HasSuffix(p.Tail(1), "up") {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the script never came up")
		}
	}
}
