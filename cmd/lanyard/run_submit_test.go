package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/api/jobs"
	"github.com/lanyard-k8s/lanyard/dockerjob/jobspec"
)

// stand answers at a socket of its own, as an exchange does.
func stand(t *testing.T, answer http.HandlerFunc) (path string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "lanyard-r-") // a socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path = filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		answer(w, r)
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
	return path
}

func answerJSON(w http.ResponseWriter, status int, body any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

const jobID = "0a1b2c3d4e5f"

// runs answers that the job runs.
func runs(w http.ResponseWriter) {
	answerJSON(w, http.StatusCreated, jobs.Job{ID: jobID, State: jobs.Running})
}

// TestInterruptedWhileItStarts: what the exchange answers when it learns that the user leaves is what the user is told. A job that runs
// already is stopped; one that does not was not started; and where nobody says it, nobody claims to know.
func TestInterruptedWhileItStarts(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	for name, tc := range map[string]struct {
		signals int
		detach  bool
		answer  func(w http.ResponseWriter) // once the user has left
		code    int
		want    string
		stops   int32
	}{
		"the answer is on its way":           {1, false, runs, 143, "", 1},
		"the answer is on its way, detached": {1, true, runs, 130, "the job had started already, and was stopped", 1},
		"it is undone": {1, false, func(w http.ResponseWriter) {
			answerJSON(w, http.StatusServiceUnavailable, jobs.Failure{Code: jobs.Unavailable, Message: "called off"})
		}, 130, "the job was not started", 0},
		"it would have been refused": {1, true, func(w http.ResponseWriter) {
			answerJSON(w, http.StatusBadRequest, jobs.Failure{Code: jobs.Invalid, Message: "no image"})
		}, 130, "the job was not started", 0},
		"an exchange that says nothing": {1, false, func(http.ResponseWriter) {}, 130, "has not said whether the job was started", 0},
		"the user does not wait":        {2, false, func(http.ResponseWriter) { <-over }, 130, "has not said whether the job was started", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			signals := make(chan os.Signal, 4)
			var stops atomic.Int32
			stopped := make(chan struct{}, 4)
			path := stand(t, func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case jobs.PathJobs:
					for range tc.signals {
						signals <- syscall.SIGINT
					}
					<-r.Context().Done() // so the exchange's own server notices
					tc.answer(w)
				case at(jobs.PathLogs, jobID):
					<-stopped
					_ = jobs.WriteFrame(w, jobs.End, nil)
				case at(jobs.PathStop, jobID):
					stops.Add(1)
					stopped <- struct{}{}
					answerJSON(w, http.StatusOK, jobs.Job{ID: jobID, State: jobs.Ended})
				default:
					code := 143
					answerJSON(w, http.StatusOK, jobs.Job{ID: jobID, State: jobs.Ended, End: jobs.EndStopped, ExitCode: &code})
				}
			})
			var said bytes.Buffer
			s := streams{out: &said, err: &said}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // whoever is never told to stop ends with that
			defer cancel()
			code := exitCode(submitAndAttend(ctx, newJobsCaller(path), jobspec.Spec{}, runFlags{detach: tc.detach}, &environment{}, painter{}, signals, s), &said)
			if code != tc.code || !strings.Contains(said.String(), tc.want) || stops.Load() != tc.stops || strings.Contains(said.String(), jobID) {
				t.Errorf("exit code %d, %d stops, said %q", code, stops.Load(), said.String())
			}
		})
	}
}

// TestInterruptedBetweenSubmissionAndJob: a signal that comes when the answer has come, and before anything is shown, stops the job.
func TestInterruptedBetweenSubmissionAndJob(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal, 4)
	stopped := make(chan struct{})
	path := stand(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case jobs.PathJobs:
			runs(w)
		case at(jobs.PathLogs, jobID):
			signals <- syscall.SIGTERM
			<-stopped
			_ = jobs.WriteFrame(w, jobs.End, nil)
		case at(jobs.PathStop, jobID):
			close(stopped)
			answerJSON(w, http.StatusOK, jobs.Job{ID: jobID, State: jobs.Ended})
		default:
			code := 3
			answerJSON(w, http.StatusOK, jobs.Job{ID: jobID, State: jobs.Ended, End: jobs.EndStopped, ExitCode: &code})
		}
	})
	var said bytes.Buffer
	s := streams{out: &said, err: &said}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // whoever is never told to stop ends with that
	defer cancel()
	if code := exitCode(submitAndAttend(ctx, newJobsCaller(path), jobspec.Spec{}, runFlags{}, &environment{}, painter{}, signals, s), &said); code != 3 {
		t.Errorf("exit code %d: %s", code, said.String())
	}
}

// TestTheLastLinesOfAJob: --tail reaches the exchange, and a number that is none is refused.
func TestTheLastLinesOfAJob(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	path := stand(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Query().Get(jobs.ParamTail)
		_ = jobs.WriteFrame(w, jobs.Stdout, []byte("the end\n"))
		_ = jobs.WriteFrame(w, jobs.End, nil)
	})
	for tail, want := range map[string]string{"20": "20", "": ""} {
		var said bytes.Buffer
		args := []string{"jobs", "logs", jobID, "--socket", path}
		if tail != "" {
			args = append(args, "--tail", tail)
		}
		if code := run(args, streams{out: &said, err: &said}); code != 0 || said.String() != "the end\n" {
			t.Errorf("--tail %s: exit code %d, %q", tail, code, said.String())
		}
		if got := <-asked; got != want {
			t.Errorf("--tail %s: asked for %q", tail, got)
		}
	}
	for _, tail := range []string{"0", "-3"} {
		var said bytes.Buffer
		if code := run([]string{"jobs", "logs", jobID, "--socket", path, "--tail=" + tail}, streams{out: &said, err: &said}); code != exitUsage || !strings.Contains(said.String(), "--tail: must be 1 or more lines") {
			t.Errorf("--tail %s: exit code %d, %q", tail, code, said.String())
		}
	}
}
