package dockerjob_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/sqlite"
	"github.com/lanyard-k8s/lanyard/dockerjob"
)

// These make a copy of the test submit a job and stop at a step, where it is killed.
const (
	childDir      = "LANYARD_TEST_DOCKERJOB_DIR"
	childHost     = "LANYARD_TEST_DOCKERJOB_HOST"
	childInstance = "LANYARD_TEST_DOCKERJOB_INSTANCE"
	childStep     = "LANYARD_TEST_DOCKERJOB_STEP"
)

// child submits a job, says the name of the step once it has got there, and stays there.
func child() int {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, os.Getenv(childDir))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	engine, err := dockerjob.NewEngine(os.Getenv(childHost))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	metrics, err := dockerjob.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	b, err := dockerjob.New(dockerjob.Options{Engine: engine, Store: store, Settings: settings(os.Getenv(childInstance)), Metrics: metrics})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	b.SetAt(func(s dockerjob.Step) error {
		if string(s) == os.Getenv(childStep) {
			fmt.Println(s)
			select {}
		}
		return nil
	})
	go func() { _ = b.Run(ctx) }()
	for tick := time.NewTicker(10 * time.Millisecond); b.Ready() != nil; <-tick.C {
	}
	ending := slices.Contains(dockerjob.Ending(), dockerjob.Step(os.Getenv(childStep)))
	job := spec("killed", "wait")
	if ending {
		job.Command = []string{"exit", "3"}
	}
	if _, err = b.Submit(ctx, alice, job); err == nil && ending {
		select {}
	}
	fmt.Fprintln(os.Stderr, "the step never came:", err)
	return 1
}

// TestKilledAtEveryStep kills the process after each step of a submission and of an end, by SIGKILL. Another one that starts then leaves nothing
// usable: no container, no volume, no live row, and a proof that was read in between is refused. A job whose row had become
// active goes on instead.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	e := sharedEngine(t)
	for _, step := range slices.Concat(dockerjob.Steps(), dockerjob.Ending()) {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			r := prepare(t, e)
			r.killAt(step)
			proofs := r.lyingProofs()
			if had := len(proofs) > 0; had != hasProof(step) {
				t.Errorf("proofs on the Engine: %d", len(proofs))
			}
			r.start()
			if step == dockerjob.StepActive {
				r.goesOn(proofs)
				return
			}
			r.nothingLeft()
			for _, p := range proofs {
				if got := r.exchange(p); got != "row_revoked" {
					t.Errorf("a proof from before the kill gives %q", got)
				}
			}
			// Whoever had not been told of the end learns of it now; of the rest nobody knows.
			jobs, err := r.List(t.Context(), alice)
			if told := step != dockerjob.StepNoticed; err != nil || (len(jobs) == 0) != told || !told && (jobs[0].ExitCode == nil || *jobs[0].ExitCode != 3) {
				t.Errorf("alice sees %+v, %v", jobs, err)
			}
			// The name is free again.
			r.submit(spec("killed", "exit", "0"))
		})
	}
}

// hasProof says at which steps a proof lies in a volume that some container has mounted.
func hasProof(s dockerjob.Step) bool {
	switch s {
	case dockerjob.StepWritten, dockerjob.StepContainer, dockerjob.StepChecked, dockerjob.StepStarted, dockerjob.StepActive,
		dockerjob.StepNoticed, dockerjob.StepRevoked, dockerjob.StepRead:
		return true
	default:
		return false
	}
}

// killAt lets a child submit, and kills it at the step.
func (r *rig) killAt(step dockerjob.Step) {
	r.t.Helper()
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute) // one that does not get to the step ends, too
	defer cancel()
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), childDir+"="+r.dir, childHost+"="+r.engine.Host(), childInstance+"="+r.settings.Instance, childStep+"="+string(step))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != string(step) {
		r.t.Fatalf("the child said %q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		r.t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		r.t.Fatalf("the child ended with %v", err)
	}
}

// lyingProofs are the proofs that can be read through any of the instance's containers.
func (r *rig) lyingProofs() []string {
	r.t.Helper()
	var found []string
	for _, c := range r.containers() {
		got, err := r.docker.CopyFromContainer(r.t.Context(), c.ID, client.CopyFromContainerOptions{SourcePath: mount + "/token"})
		if err != nil {
			continue
		}
		_ = got.Content.Close()
		found = append(found, r.proofIn(c.ID))
	}
	return found
}

// goesOn sees that a job was taken over: it runs, its proof works, its submitter can stop it, and then nothing is left.
func (r *rig) goesOn(proofs []string) {
	r.t.Helper()
	jobs, err := r.List(r.t.Context(), alice)
	if err != nil || len(jobs) != 1 || jobs[0].State != dockerjob.Running || jobs[0].Job != "killed" || jobs[0].Image != spec("").Image {
		r.t.Fatalf("alice sees %+v, %v", jobs, err)
	}
	if got := r.exchange(proofs[0]); !strings.HasPrefix(got, alice) {
		r.t.Errorf("its proof gives %q", got)
	}
	if _, err := r.Stop(r.t.Context(), alice, jobs[0].ID, time.Minute); err != nil {
		r.t.Error(err)
	}
	if got := r.exchange(proofs[0]); got != "row_revoked" {
		r.t.Errorf("after its end the proof gives %q", got)
	}
	r.nothingLeft()
}

// TestFailureAtEveryStep lets each step be the last one that works. The submission is undone at once, without waiting for
// a comparison.
func TestFailureAtEveryStep(t *testing.T) {
	t.Parallel()
	e := sharedEngine(t)
	broken := errors.New("broken on purpose")
	for _, step := range dockerjob.Steps() {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			r := prepare(t, e, func(s *dockerjob.Settings) { s.Resync = time.Hour })
			r.open()
			var proofs []string
			r.SetAt(func(s dockerjob.Step) error {
				if s != step {
					return nil
				}
				proofs = r.lyingProofs()
				return broken
			})
			r.run()
			r.eventually("the backend is ready", func() bool { return r.Ready() == nil })
			if _, err := r.Submit(t.Context(), alice, spec("failing", "wait")); !errors.Is(err, broken) {
				t.Fatalf("submitted with %v", err)
			}
			if n, v := len(r.containers()), r.volumes(); n > 0 || len(v) > 0 {
				t.Errorf("left: %d containers, volumes %v", n, v)
			}
			for _, p := range proofs {
				if got := r.exchange(p); got != "row_revoked" {
					t.Errorf("the proof gives %q", got)
				}
			}
			r.nothingLeft()
			if step == dockerjob.StepImage {
				return // nothing was stored
			}
			rows, err := r.store.Rows(t.Context(), delegation.RowQuery{})
			if step == dockerjob.StepSubmission {
				subs, err2 := r.store.Submissions(t.Context(), delegation.SubmissionQuery{})
				if err != nil || err2 != nil || len(rows) > 0 || len(subs) != 1 || subs[0].Reason != delegation.StartFailed {
					t.Errorf("rows %+v, submissions %+v, %v, %v", rows, subs, err, err2)
				}
			} else if err != nil || len(rows) != 1 || rows[0].Reason != delegation.StartFailed {
				t.Errorf("rows %+v, %v", rows, err)
			}
			if got := r.metric("lanyard_dockerjob_ended_total", dockerjob.EndFailed); got != 1 {
				t.Errorf("%v were counted as failed", got)
			}
		})
	}
}
