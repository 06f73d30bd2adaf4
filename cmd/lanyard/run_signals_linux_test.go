package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/api/jobs"
	"github.com/lanyard-k8s/lanyard/dockerjob/jobspec"
)

// TestIgnoredSignalsStayIgnored: nohup and a script's & have the command started with signals ignored, and they stop no job then, while it
// starts or runs. One that was not ignored does.
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		trap    string
		ignored []syscall.Signal
	}{
		"nohup":         {"trap '' HUP", []syscall.Signal{syscall.SIGHUP}},
		"a script's &":  {"trap '' INT", []syscall.Signal{syscall.SIGINT}},
		"both together": {"trap '' HUP INT", []syscall.Signal{syscall.SIGHUP, syscall.SIGINT}},
		"nothing":       {":", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stops atomic.Int32
			arrived, on, stopped := make(chan string, 2), make(chan struct{}), make(chan struct{})
			path := stand(t, func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case jobs.PathJobs:
					arrived <- "submit"
					<-on
					runs(w)
				case at(jobs.PathLogs, jobID):
					arrived <- "logs"
					<-stopped
					_ = jobs.WriteFrame(w, jobs.End, nil)
				case at(jobs.PathStop, jobID):
					if stops.Add(1) == 1 {
						close(stopped)
					}
					answerJSON(w, http.StatusOK, jobs.Job{ID: jobID, State: jobs.Ended})
				default:
					code := 7
					answerJSON(w, http.StatusOK, jobs.Job{ID: jobID, State: jobs.Ended, End: jobs.EndStopped, ExitCode: &code})
				}
			})
			var said bytes.Buffer
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // one that heeds no signal is killed
			defer cancel()
			cmd := exec.CommandContext(ctx, "/bin/sh", "-c", tc.trap+`; exec lanyard run --socket "$1" --image i:1`, "sh", path)
			cmd.Stdout, cmd.Stderr = &said, &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() { defer close(ended); _ = cmd.Wait() }()
			for _, want := range []string{"submit", "logs"} {
				select {
				case got := <-arrived:
					if got != want {
						t.Fatalf("%s arrived before %s", got, want)
					}
				case <-ended:
					t.Fatalf("it ended before %s: %s", want, said.String())
				}
				if diff := disregarded(t, cmd.Process.Pid, tc.ignored); diff != "" {
					t.Errorf("at %s: %s", want, diff)
				}
				for _, s := range tc.ignored {
					if err := cmd.Process.Signal(s); err != nil {
						t.Fatal(err)
					}
				}
				if want == "submit" {
					close(on)
				}
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			<-ended
			if code := cmd.ProcessState.ExitCode(); code != 7 || stops.Load() != 1 {
				t.Errorf("exit code %d after %d stops: %s", code, stops.Load(), said.String())
			}
		})
	}
}

// disregarded says which of the two signals a process ignores that it should not, or the other way round, as the kernel has it.
func disregarded(t *testing.T, pid int, want []syscall.Signal) string {
	t.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		mask, ok := strings.CutPrefix(line, "SigIgn:")
		if !ok {
			continue
		}
		bits, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
			is, should := bits>>(s-1)&1 == 1, signal.Ignored(s) // by whoever started the tests
			for _, w := range want {
				should = should || w == s
			}
			if is != should {
				return s.String() + " is ignored: " + strconv.FormatBool(is)
			}
		}
		return ""
	}
	return "the kernel says nothing of ignored signals"
}

// TestASubmissionThatTakesLongSaysSo: on a terminal, once.
func TestASubmissionThatTakesLongSaysSo(t *testing.T) {
	t.Parallel()
	terminal, screen := openTerminal(t)
	var line string
	seen := make(chan struct{})
	path := stand(t, func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-seen:
			if strings.TrimSpace(line) != "starting..." {
				t.Errorf("the first line is %q, want starting...", line)
			}
		case <-time.After(time.Minute):
			t.Error("no line was written in a minute, want starting...")
		}
		runs(w)
	})
	go func() {
		defer close(seen)
		var err error
		if line, err = bufio.NewReader(screen).ReadString('\n'); err != nil {
			line += err.Error()
		}
	}()
	sub := &submission{c: newJobsCaller(path), spec: jobspec.Spec{}, s: streams{out: io.Discard, err: terminal}, quiet: time.Millisecond}
	if job, err := sub.run(t.Context(), make(chan os.Signal, 4)); err != nil || job.ID != jobID {
		t.Errorf("got %+v, %v", job, err)
	}
	// A pipe is told nothing.
	var said bytes.Buffer
	sub = &submission{c: newJobsCaller(path), spec: jobspec.Spec{}, s: streams{out: io.Discard, err: &said}, quiet: time.Nanosecond}
	if _, err := sub.run(t.Context(), make(chan os.Signal, 4)); err != nil || said.Len() > 0 {
		t.Errorf("said %q, %v", said.String(), err)
	}
}
