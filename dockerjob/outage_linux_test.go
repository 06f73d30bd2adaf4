package dockerjob_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/delegationtest"
	"github.com/lanyard-k8s/lanyard/dockerjob"
	"github.com/lanyard-k8s/lanyard/test/docker"
)

// TestNoEngine: without an Engine nothing is taken and nothing stored; once one comes, jobs start.
func TestNoEngine(t *testing.T) {
	t.Parallel()
	e := docker.ForTest(t, docker.Options{})
	if err := e.Interrupt(); err != nil {
		t.Fatal(err)
	}
	r := prepare(t, e)
	r.open()
	r.run()
	r.eventually("it was tried", func() bool { return strings.Contains(r.log.String(), "trying again") })
	if err := r.Ready(); !errors.Is(err, dockerjob.ErrEngine) {
		t.Errorf("ready: %v", err)
	}
	if _, err := r.Submit(t.Context(), alice, spec("early", "wait")); !errors.Is(err, dockerjob.ErrEngine) {
		t.Errorf("submitted with %v", err)
	}
	if rows, err := r.store.Rows(t.Context(), delegation.RowQuery{}); err != nil || len(rows) > 0 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	if got := r.metric("lanyard_dockerjob_engine_up", ""); got != 0 {
		t.Errorf("engine_up is %v", got)
	}
	if err := e.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.eventually("the backend is ready", func() bool { return r.Ready() == nil })
	if got := r.said(spec("late", "say", "hello")); got != "hello\n" {
		t.Errorf("the job said %q", got)
	}
	if got := r.metric("lanyard_dockerjob_engine_up", ""); got != 1 {
		t.Errorf("engine_up is %v", got)
	}
}

// TestTheEngineGoesAway takes the Engine away under running jobs. An outage ends no job: rows stay as they are. With live-restore the
// containers go on and the jobs with them; without it the containers have ended when it comes back, and the jobs end.
func TestTheEngineGoesAway(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		liveRestore bool
		away        func(*docker.Engine) error
	}{
		"restarted, containers kept": {true, (*docker.Engine).Interrupt},
		"killed, containers kept":    {true, (*docker.Engine).Kill},
		"restarted":                  {false, (*docker.Engine).Interrupt},
		"killed":                     {false, (*docker.Engine).Kill},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := docker.ForTest(t, docker.Options{LiveRestore: tc.liveRestore})
			r := newRig(t, e)
			j := r.submit(spec("long", "wait"))
			proof := r.proof(j)
			if err := tc.away(e); err != nil {
				t.Fatal(err)
			}
			r.eventually("the outage is noticed", func() bool { return errors.Is(r.Ready(), dockerjob.ErrEngine) })
			if tc.liveRestore {
				// Several rounds of trying: still nobody has said that the job ended.
				if got, err := r.Job(t.Context(), alice, j.ID); err != nil || got.State != dockerjob.Running {
					t.Errorf("during the outage it is %+v, %v", got, err)
				}
				if got := r.exchange(proof); !strings.HasPrefix(got, alice) {
					t.Errorf("during the outage the proof gives %q", got)
				}
			}
			if err := e.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.eventually("the backend is ready", func() bool { return r.Ready() == nil })
			if tc.liveRestore {
				if got, err := r.Job(t.Context(), alice, j.ID); err != nil || got.State != dockerjob.Running {
					t.Errorf("after the outage it is %+v, %v", got, err)
				}
				if _, err := r.Stop(t.Context(), alice, j.ID, time.Minute); err != nil {
					t.Error(err)
				}
			}
			ended, err := r.Wait(t.Context(), alice, j.ID)
			if err != nil || ended.ExitCode == nil {
				t.Errorf("ended as %+v, %v", ended, err)
			}
			if got := r.exchange(proof); got != "row_revoked" {
				t.Errorf("after the end the proof gives %q", got)
			}
			r.nothingLeft()
			if got := r.said(spec("next", "say", "hello")); got != "hello\n" {
				t.Errorf("the next job said %q", got)
			}
		})
	}
}

// TestWhatACrashLeaves puts things onto the Engine as a crash would leave them, or somebody who knows how. Labels give nothing: all of
// it is removed, also what claims to belong to a job that runs. What merely inherited our labels, and has another name, is not ours.
func TestWhatACrashLeaves(t *testing.T) {
	t.Parallel()
	r := newRig(t, sharedEngine(t))
	j := r.submit(spec("real", "wait"))
	proof := r.proof(j)
	name, err := delegation.ParseProof(proof)
	if err != nil {
		t.Fatal(err)
	}
	labels := func(row string) map[string]string {
		return map[string]string{"lanyard.dev/instance": r.settings.Instance, "lanyard.dev/row": row}
	}
	crashed, another := delegation.DockerName("w", "job", "j/t", r.settings.Instance), delegation.DockerName("w", "job", "j/t", "2"+r.settings.Instance)
	for container, row := range map[string]string{
		"lanyard-" + j.ID + "-writer": name.Name, "lanyard-" + crashed[7:19]: crashed, "lanyard-" + another[7:19] + "-writer": another,
	} {
		r.container(container, labels(row))
	}
	r.volume("task-workload-identity-w-j-t-"+crashed[7:19], labels(crashed))
	r.eventually("what was left is gone", func() bool { return len(r.containers()) == 1 && len(r.volumes()) == 1 })
	inherited := "inherited-" + r.settings.Instance
	for i, row := range []string{name.Name, crashed, "", "nonsense", "docker-" + strings.Repeat("0", 48)} {
		r.container(fmt.Sprint(inherited, i), labels(row))
	}
	r.volume(inherited, labels(crashed))
	if err := r.Reconciled(); err != nil {
		t.Fatal(err)
	}
	if c, v := len(r.containers()), len(r.volumes()); c != 6 || v != 2 {
		t.Errorf("%d containers and %d volumes are there, and nobody's but the job's are ours", c, v)
	}
	if got, err := r.Job(t.Context(), alice, j.ID); err != nil || got.State != dockerjob.Running {
		t.Errorf("the real job is %+v, %v", got, err)
	}
	if got := r.exchange(proof); !strings.HasPrefix(got, alice) {
		t.Errorf("its proof gives %q", got)
	}
	// Another instance's things are not ours to remove.
	other := newRig(t, r.engine)
	k := other.submit(spec("other", "wait"))
	if err := errors.Join(r.Reconciled(), other.Reconciled()); err != nil {
		t.Fatal(err)
	}
	if got, err := other.Job(t.Context(), alice, k.ID); err != nil || got.State != dockerjob.Running {
		t.Errorf("the other instance's is %+v, %v", got, err)
	}
}

// TestRestarts stops the backend in order and starts it again: jobs go on, one that ended meanwhile has ended, and one whose container
// was removed meanwhile, too.
func TestRestarts(t *testing.T) {
	t.Parallel()
	r := newRig(t, sharedEngine(t))
	goes, ends, gone := r.submit(spec("goes", "wait")), r.submit(spec("ends", "wait")), r.submit(spec("gone", "wait"))
	proofs := []string{r.proof(goes), r.proof(ends), r.proof(gone)}
	r.end()
	if _, err := r.docker.ContainerStop(t.Context(), r.containerOf(ends), client.ContainerStopOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.docker.ContainerRemove(t.Context(), r.containerOf(gone), client.ContainerRemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	r.start()
	for job, want := range map[string]string{ends.ID: dockerjob.EndExited, gone.ID: dockerjob.EndRemoved} {
		got, err := r.Wait(t.Context(), alice, job)
		if err != nil || got.End != want {
			t.Errorf("ended as %+v, %v", got, err)
		}
	}
	if got, err := r.Job(t.Context(), alice, "default/goes/main"); err != nil || got.State != dockerjob.Running || got.ID != goes.ID || got.Image != docker.ProbeImage {
		t.Errorf("what goes on is %+v, %v", got, err)
	}
	for i, want := range []string{alice, "row_revoked", "row_revoked"} {
		if got := r.exchange(proofs[i]); !strings.HasPrefix(got, want) {
			t.Errorf("proof %d gives %q", i, got)
		}
	}
	if _, err := r.Job(t.Context(), bob, goes.ID); !errors.Is(err, dockerjob.ErrNotFound) {
		t.Errorf("bob sees it: %v", err)
	}
	if _, err := r.Stop(t.Context(), alice, goes.ID, time.Minute); err != nil {
		t.Error(err)
	}
	r.nothingLeft()
}

// TestRevokedByAnAdmin: whoever revokes a submitter ends his jobs.
func TestRevokedByAnAdmin(t *testing.T) {
	t.Parallel()
	r := newRig(t, sharedEngine(t))
	j := r.submit(spec("revoked", "wait"))
	proof := r.proof(j)
	if _, err := r.store.Revoke(t.Context(), delegation.Revocation{Submitter: alice, Reason: delegation.SubmitterRevoked, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if got := r.exchange(proof); got != "row_revoked" {
		t.Errorf("the proof gives %q", got)
	}
	ended, err := r.Wait(t.Context(), alice, j.ID)
	if err != nil || ended.End != dockerjob.EndRevoked {
		t.Errorf("ended as %+v, %v", ended, err)
	}
	r.nothingLeft()
	row, err := r.store.Rows(t.Context(), delegation.RowQuery{})
	if err != nil || len(row) != 1 || row[0].Reason != delegation.SubmitterRevoked {
		t.Errorf("rows %+v, %v", row, err)
	}
}

// TestRenewed: the row of a job that runs longer than a row lasts is renewed.
func TestRenewed(t *testing.T) {
	t.Parallel()
	now := newClock()
	r := prepare(t, sharedEngine(t))
	r.clock = now.now
	r.start()
	j := r.submit(spec("long", "wait"))
	rows := func() delegation.Row {
		got, err := r.store.Rows(t.Context(), delegation.RowQuery{State: delegation.Active})
		if err != nil || len(got) != 1 {
			t.Fatalf("rows %+v, %v", got, err)
		}
		return got[0]
	}
	first := rows().ExpiresAt
	now.add(13 * time.Hour)
	r.eventually("the row is renewed", func() bool { return rows().ExpiresAt.Sub(first) == 13*time.Hour })
	if got, err := r.Job(t.Context(), alice, j.ID); err != nil || got.State != dockerjob.Running {
		t.Errorf("the job is %+v, %v", got, err)
	}
	if _, err := r.Stop(t.Context(), alice, j.ID, time.Minute); err != nil {
		t.Fatal(err)
	}
	// What ended is forgotten after a while, and its record erased.
	now.add(2 * time.Hour)
	r.eventually("it is listed no more", func() bool { jobs, err := r.List(t.Context(), alice); return err == nil && len(jobs) == 0 })
	now.add(31 * 24 * time.Hour)
	r.eventually("nothing is on record", func() bool {
		rows, err := r.store.Rows(t.Context(), delegation.RowQuery{})
		subs, err2 := r.store.Submissions(t.Context(), delegation.SubmissionQuery{})
		return err == nil && err2 == nil && len(rows) == 0 && len(subs) == 0
	})
}

// TestTheDatabaseGoesAway: without it no job starts, and one that ends meanwhile has ended only once its row is revoked.
func TestTheDatabaseGoesAway(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	r := prepare(t, sharedEngine(t))
	r.memory = &delegationtest.Memory{Fail: func() error {
		if away.Load() {
			return delegation.ErrUnavailable
		}
		return nil
	}}
	r.start()
	j := r.submit(spec("ends", "wait"))
	proof := r.proof(j)
	away.Store(true)
	if _, err := r.Submit(t.Context(), alice, spec("none", "wait")); !errors.Is(err, dockerjob.ErrStore) {
		t.Errorf("submitted with %v", err)
	}
	if _, err := r.docker.ContainerStop(t.Context(), r.containerOf(j), client.ContainerStopOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the end is noticed", func() bool { return strings.Contains(r.log.String(), "revoke the row of a job that has ended") })
	if got, err := r.Job(t.Context(), alice, j.ID); err != nil || got.State != dockerjob.Running {
		t.Errorf("with its row alive the job is %+v, %v", got, err)
	}
	away.Store(false)
	if got, err := r.Wait(t.Context(), alice, j.ID); err != nil || got.End != dockerjob.EndExited {
		t.Errorf("ended as %+v, %v", got, err)
	}
	if got := r.exchange(proof); got != "row_revoked" {
		t.Errorf("the proof gives %q", got)
	}
	r.nothingLeft()
}

// TestUndoneLater: a submission fails, and so does undoing it, since the database goes away at that moment. It is undone once that is
// back, and never seen running.
func TestUndoneLater(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	broken := errors.New("broken on purpose")
	r := prepare(t, sharedEngine(t), func(s *dockerjob.Settings) { s.Resync = time.Hour })
	r.memory = &delegationtest.Memory{Fail: func() error {
		if away.Load() {
			return delegation.ErrUnavailable
		}
		return nil
	}}
	r.open()
	var proof string
	r.SetAt(func(s dockerjob.Step) error {
		if s != dockerjob.StepActive {
			return nil
		}
		proof = r.lyingProofs()[0]
		away.Store(true)
		return broken
	})
	r.run()
	r.eventually("the backend is ready", func() bool { return r.Ready() == nil })
	if _, err := r.Submit(t.Context(), alice, spec("undone", "wait")); !errors.Is(err, broken) {
		t.Fatalf("submitted with %v", err)
	}
	if jobs, err := r.List(t.Context(), alice); err != nil || len(jobs) != 1 || jobs[0].State != dockerjob.Ended || jobs[0].End != dockerjob.EndFailed {
		t.Errorf("alice sees %+v, %v", jobs, err)
	}
	away.Store(false)
	r.eventually("it is undone", func() bool { return r.exchange(proof) == "row_revoked" })
	r.nothingLeft()
	r.eventually("it is forgotten", func() bool { jobs, err := r.List(t.Context(), alice); return err == nil && len(jobs) == 0 })
}

// slow is a store whose answer about pending rows is late.
type slow struct {
	delegation.Store
	armed    atomic.Bool
	read, on chan struct{}
}

func (s *slow) Rows(ctx context.Context, q delegation.RowQuery) ([]delegation.Row, error) {
	rows, err := s.Store.Rows(ctx, q)
	if q.State == delegation.Pending && len(rows) > 0 && s.armed.CompareAndSwap(true, false) {
		close(s.read)
		<-s.on
	}
	return rows, err
}

// TestAComparisonThatIsLate reads a row while it is pending, and judges it once its job runs. The job is not ended for that.
func TestAComparisonThatIsLate(t *testing.T) {
	t.Parallel()
	r := prepare(t, sharedEngine(t), func(s *dockerjob.Settings) { s.Resync = time.Hour })
	late := &slow{read: make(chan struct{}), on: make(chan struct{})}
	r.wrap = func(s delegation.Store) delegation.Store { late.Store = s; return late }
	r.open()
	compared := make(chan error, 1)
	r.SetAt(func(s dockerjob.Step) error {
		switch s {
		case dockerjob.StepRow:
			late.armed.Store(true)
			go func() { compared <- r.Reconciled() }()
			<-late.read
		case dockerjob.StepActive:
			close(late.on)
			return <-compared
		}
		return nil
	})
	r.run()
	r.eventually("the backend is ready", func() bool { return r.Ready() == nil })
	j := r.submit(spec("long", "wait"))
	if got := r.exchange(r.proof(j)); !strings.HasPrefix(got, alice) {
		t.Errorf("its proof gives %q", got)
	}
	if err := r.Reconciled(); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Job(t.Context(), alice, j.ID); err != nil || got.State != dockerjob.Running {
		t.Errorf("the job is %+v, %v", got, err)
	}
}

// container starts a container that is not the backend's. It may be swept before it has started.
func (r *rig) container(name string, labels map[string]string) {
	r.t.Helper()
	made, err := r.docker.ContainerCreate(r.t.Context(), client.ContainerCreateOptions{Name: name, Config: &container.Config{Image: docker.ProbeImage, Cmd: []string{"wait"}, Labels: labels}})
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.docker.ContainerStart(r.t.Context(), made.ID, client.ContainerStartOptions{}); err != nil && !strings.Contains(err.Error(), "removal") && !strings.Contains(err.Error(), "No such container") {
		r.t.Fatal(err)
	}
}

func (r *rig) volume(name string, labels map[string]string) {
	r.t.Helper()
	if _, err := r.docker.VolumeCreate(r.t.Context(), client.VolumeCreateOptions{Name: name, Labels: labels}); err != nil {
		r.t.Fatal(err)
	}
}
