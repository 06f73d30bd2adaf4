package dockerjob_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/client"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/dockerjob"
)

// before puts something before the rig's Engine that answers what it wants to, says so, and leaves the rest to the Engine.
func (r *rig) before(answer func(w http.ResponseWriter, q *http.Request, engine http.Handler) bool) {
	r.t.Helper()
	through := &httputil.ReverseProxy{
		Rewrite:       func(q *httputil.ProxyRequest) { q.Out.URL.Scheme, q.Out.URL.Host = "http", "engine" },
		FlushInterval: -1,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(r.engine.Host(), "unix://"))
		}},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if !answer(w, q, through) {
			through.ServeHTTP(w, q)
		}
	}))
	r.t.Cleanup(front.Close)
	r.t.Cleanup(func() { r.end() }) // before it: streams of events are open
	r.host = "tcp://" + front.Listener.Addr().String()
}

// broken lets the Engine answer an error when certain containers are inspected, as one does whose container's state on the disk is
// damaged. What it returns breaks the inspection of those, in place of whatever was broken before.
func (r *rig) broken() (these func(containers ...string)) {
	r.t.Helper()
	var broken atomic.Value
	broken.Store([]string(nil))
	r.before(func(w http.ResponseWriter, q *http.Request, _ http.Handler) bool {
		for _, id := range broken.Load().([]string) {
			if strings.HasSuffix(q.URL.Path, "/containers/"+id+"/json") {
				w.WriteHeader(http.StatusInternalServerError)
				_, _ = io.WriteString(w, `{"message":"its state cannot be read"}`)
				return true
			}
		}
		return false
	})
	return func(containers ...string) { broken.Store(containers) }
}

// boundTo is the id of a job's container.
func (r *rig) boundTo(j dockerjob.Job) string {
	r.t.Helper()
	got, err := r.docker.ContainerInspect(r.t.Context(), r.containerOf(j), client.ContainerInspectOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return got.Container.ID
}

// TestOneContainerThatCannotBeInspected: the Engine answers an error for some containers, and lists the others as ever. Jobs are taken all
// the same. What the list shows as running runs; what it shows as ended has ended, at the second look; of what it does not show nobody
// knows, and so that row stays, is not renewed, and its job is its submitter's still.
func TestOneContainerThatCannotBeInspected(t *testing.T) {
	t.Parallel()
	now := newClock()
	r := prepare(t, sharedEngine(t), func(s *dockerjob.Settings) { s.Resync = time.Hour })
	r.clock = now.now
	breaks := r.broken()
	r.start()
	runs, ended, hidden := r.submit(spec("runs", "wait")), r.submit(spec("ended", "wait")), r.submit(spec("hidden", "wait"))
	proofs := map[string]string{"runs": r.proof(runs), "ended": r.proof(ended), "hidden": r.proof(hidden)}
	ids := []string{r.boundTo(runs), r.boundTo(ended), r.boundTo(hidden)}
	r.end()
	if _, err := r.docker.ContainerKill(t.Context(), r.containerOf(ended), client.ContainerKillOptions{Signal: "KILL"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.docker.ContainerRename(t.Context(), ids[2], client.ContainerRenameOptions{NewName: "renamed-" + r.settings.Instance}); err != nil {
		t.Fatal(err)
	}
	breaks(ids...)
	now.add(13 * time.Hour) // rows are renewed after twelve
	r.start()
	if got := r.said(spec("next", "say", "hello")); got != "hello\n" {
		t.Errorf("the next job said %q", got)
	}
	for _, j := range []dockerjob.Job{runs, ended, hidden} {
		if got, err := r.Job(t.Context(), alice, j.ID); err != nil || got.State != dockerjob.Running {
			t.Errorf("job %s is %+v, %v", j.Job, got, err)
		}
		if got := r.exchange(proofs[j.Job]); !strings.HasPrefix(got, alice) {
			t.Errorf("the proof of %s gives %q", j.Job, got)
		}
	}
	if err := r.Reconciled(); err == nil || !strings.Contains(err.Error(), "its state cannot be read") {
		t.Errorf("compared with %v", err)
	}
	if got, err := r.Wait(t.Context(), alice, ended.ID); err != nil || got.ExitCode != nil || got.End != dockerjob.EndExited {
		t.Errorf("what the list says has ended is %+v, %v", got, err)
	}
	if got := r.exchange(proofs["ended"]); got != "row_revoked" {
		t.Errorf("after its end the proof gives %q", got)
	}
	rows, err := r.store.Rows(t.Context(), delegation.RowQuery{State: delegation.Active})
	if err != nil || len(rows) != 2 {
		t.Fatalf("rows %+v, %v", rows, err)
	}
	for _, row := range rows {
		if renewed := row.ExpiresAt.Sub(now.now()) > 12*time.Hour; renewed != (row.Bound.Value == ids[0]) {
			t.Errorf("the row of %s is renewed: %v", row.Bound.Value, renewed)
		}
	}
	if got, partly := r.metric("lanyard_dockerjob_rows_unknown_total", ""), r.metric("lanyard_dockerjob_reconciles_total", "partly"); got != 3 || partly != 1 {
		t.Errorf("%v rows are counted as unknown, %v comparisons as partly made", got, partly)
	}
	// Once it can be looked at again it is as any other.
	breaks()
	if _, err := r.docker.ContainerRename(t.Context(), ids[2], client.ContainerRenameOptions{NewName: r.containerOf(hidden)}); err != nil {
		t.Fatal(err)
	}
	if err := r.Reconciled(); err != nil {
		t.Error(err)
	}
	for _, j := range []dockerjob.Job{runs, hidden} {
		if _, err := r.Stop(t.Context(), alice, j.ID, 0); err != nil {
			t.Errorf("stop %s: %v", j.Job, err)
		}
	}
	r.nothingLeft()
}

// TestSubmissionsWithoutARow: one of a job whose maker died before the row was stored is closed, more than a page of them. One that has a
// row is not, nor is any that is not a job's on this machine.
func TestSubmissionsWithoutARow(t *testing.T) {
	t.Parallel()
	r := newRig(t, sharedEngine(t), func(s *dockerjob.Settings) { s.Resync = time.Hour })
	j := r.submit(spec("has-a-row", "wait"))
	bare := func(uid, kind string) delegation.Submission {
		return delegation.Submission{
			UID: uid, GroupKind: kind, Cluster: "test", Namespace: "default", Name: "bare/main", Submitter: alice,
			Audiences: []string{"platform"}, State: delegation.Confirmed, ConfirmedAt: delegation.Moment(time.Now()),
		}
	}
	const many = delegation.MaxPage + 3
	for i := range many {
		if _, err := r.store.Confirm(t.Context(), bare(delegation.DockerName("default", "job", "bare/main", fmt.Sprint(i)), "docker/Job")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.store.Confirm(t.Context(), bare("0f0b5c2e-6d9a-4a8e-9f0c-0d1b6c7e8f90", "batch/Job")); err != nil {
		t.Fatal(err)
	}
	before := r.metric("lanyard_dockerjob_leftovers_total", "row")
	if err := r.Reconciled(); err != nil {
		t.Fatal(err)
	}
	open, err := r.store.Submissions(t.Context(), delegation.SubmissionQuery{State: delegation.Confirmed})
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, s := range open {
		left = append(left, s.GroupKind+" "+s.Name)
	}
	slices.Sort(left)
	if diff := cmp.Diff([]string{"batch/Job bare/main", "docker/Job has-a-row/main"}, left); diff != "" {
		t.Errorf("open submissions (-want +got):\n%s", diff)
	}
	for after, n := "", 0; ; {
		page, err := r.store.Submissions(t.Context(), delegation.SubmissionQuery{After: after})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page {
			after = s.UID
			if s.Name == "bare/main" && s.GroupKind == "docker/Job" && s.Reason == delegation.StartFailed {
				n++
			}
		}
		if len(page) < delegation.MaxPage {
			if n != many {
				t.Errorf("%d were closed for not having started, want %d", n, many)
			}
			break
		}
	}
	if got := r.metric("lanyard_dockerjob_leftovers_total", "row") - before; got != many {
		t.Errorf("%v were counted", got)
	}
	if got := r.exchange(r.proof(j)); !strings.HasPrefix(got, alice) {
		t.Errorf("the proof of the job with a row gives %q", got)
	}
}
