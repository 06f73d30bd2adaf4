package dockerjob_test

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/client"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/dockerjob"
	"github.com/lanyard-k8s/lanyard/dockerjob/jobspec"
	"github.com/lanyard-k8s/lanyard/test/docker"
)

const mount = "/var/run/secrets/nemo-platform/workload"

// TestWhatAJobFinds looks around in a job's container.
func TestWhatAJobFinds(t *testing.T) {
	t.Parallel()
	r := newRig(t, sharedEngine(t))
	s := spec("look",
		"env", "NMP_WORKLOAD_IDENTITY_TOKEN_FILE", "env", "NMP_BASE_URL", "env", "NMP_CLIENT_SSL_CERT_FILE", "env", "MINE",
		"mode", mount+"/token", "mode", mount+"/ca.crt", "write", mount+"/token", "write", mount+"/other",
		"cat", mount+"/ca.crt", "status", "NoNewPrivs", "status", "CapBnd", "status", "CapEff", "status", "Uid",
		"hosts", "lanyard.internal", "complain", "to standard error", "exit", "7")
	s.Env = []dockerjob.EnvVar{{Name: "MINE", Value: "a=b $HOME"}}
	j := r.submit(s)
	var out, errs bytes.Buffer
	if err := r.Logs(t.Context(), alice, j.ID, dockerjob.LogOptions{Follow: true}, &out, &errs); err != nil {
		t.Fatal(err)
	}
	proof := len("nmp_obo_v1.") + 74 + 1 + 43 // base64url of a name of 55 bytes, and of 32 bytes
	want := []string{
		mount + "/token", "https://lanyard.internal:8443", mount + "/ca.crt", "a=b $HOME",
		fmt.Sprintf("-r--r--r-- 0 0 %d", proof), fmt.Sprintf("-r--r--r-- 0 0 %d", len(certificate())),
		"error: open " + mount + "/token: permission denied", "error: open " + mount + "/other: read-only file system",
	}
	want = append(want, strings.Split(strings.TrimSpace(string(certificate())), "\n")...)
	want = append(want, "1", "0000000000000000", "0000000000000000", "65532\t65532\t65532\t65532", r.engine.Gateway().String())
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(out.String()), "\n")); diff != "" {
		t.Errorf("the job found (-want +got):\n%s", diff)
	}
	if errs.String() != "to standard error\n" {
		t.Errorf("standard error: %q", errs.String())
	}
	ended, err := r.Wait(t.Context(), alice, j.ID)
	if err != nil || ended.State != dockerjob.Ended || ended.ExitCode == nil || *ended.ExitCode != 7 || ended.End != dockerjob.EndExited || ended.Ended.IsZero() {
		t.Errorf("ended as %+v, %v", ended, err)
	}
	r.nothingLeft()
	// What it said can still be read.
	out.Reset()
	if err := r.Logs(t.Context(), alice, "default/look/main", dockerjob.LogOptions{}, &out, &errs); err != nil || !strings.Contains(out.String(), "a=b $HOME") {
		t.Errorf("the kept output is %q, %v", out.String(), err)
	}
}

// TestRootMayNotWriteEither: the volume is mounted read-only, whoever the image runs as.
func TestRootMayNotWriteEither(t *testing.T) {
	t.Parallel()
	e := sharedEngine(t)
	r := newRig(t, e)
	if err := e.Vary(t.Context(), docker.ProbeImage, "lanyard.test/root:1", "USER 0"); err != nil {
		t.Fatal(err)
	}
	s := spec("root", "status", "Uid", "write", mount+"/other", "write", "/elsewhere")
	s.Image = "lanyard.test/root:1"
	want := "0\t0\t0\t0\nerror: open " + mount + "/other: read-only file system\nwritable\n"
	if got := r.said(s); got != want {
		t.Errorf("root found %q, want %q", got, want)
	}
}

// TestHowItIsConfined reads what the Engine was told.
func TestHowItIsConfined(t *testing.T) {
	t.Parallel()
	r := newRig(t, sharedEngine(t), func(s *dockerjob.Settings) {
		s.Limits = jobspec.Limits{DefaultMemory: resource.MustParse("64Mi"), DefaultCPU: resource.MustParse("1")}
		s.Pids = 20
	})
	s := spec("confined", "wait")
	s.CPU = resource.MustParse("250m")
	j := r.submit(s)
	got, err := r.docker.ContainerInspect(t.Context(), r.containerOf(j), client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h := got.Container.HostConfig
	if h.Memory != 64<<20 || h.MemorySwap != 64<<20 || h.NanoCPUs != 250e6 || *h.PidsLimit != 20 {
		t.Errorf("memory %d, with swap %d, cpu %d, pids %d", h.Memory, h.MemorySwap, h.NanoCPUs, *h.PidsLimit)
	}
	if h.Privileged || len(h.Binds) > 0 || len(h.Devices) > 0 || len(h.DeviceRequests) > 0 || len(h.CapAdd) > 0 || len(h.PortBindings) > 0 || h.PidMode != "" || h.UTSMode != "" ||
		h.NetworkMode != "bridge" || h.IpcMode != "private" || h.AutoRemove || h.RestartPolicy.Name != "no" || h.PublishAllPorts || len(h.VolumesFrom) > 0 {
		t.Errorf("not confined: %+v", h)
	}
	if len(h.Mounts) != 1 || !h.Mounts[0].ReadOnly || h.Mounts[0].Source != "task-workload-identity-default-confined-main-"+j.ID || h.Mounts[0].Target != mount {
		t.Errorf("mounts: %+v", h.Mounts)
	}
	if diff := cmp.Diff([]string{"ALL"}, h.CapDrop); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"no-new-privileges"}, h.SecurityOpt); diff != "" {
		t.Error(diff)
	}
	if got := r.said(spec("forks", "fork", "100")); got == "started 100\n" || !strings.HasPrefix(got, "started ") {
		t.Errorf("a job with at most 20 processes said %q", got)
	}
	eater := r.submit(spec("eats", "eat", fmt.Sprint(512<<20)))
	ended, err := r.Wait(t.Context(), alice, eater.ID)
	if err != nil || ended.End != dockerjob.EndOutOfMemory || ended.ExitCode == nil || *ended.ExitCode == 0 {
		t.Errorf("a job that takes more than its memory ended as %+v, %v", ended, err)
	}
}

// TestAProofLivesAsLongAsItsJob copies a proof out of a container. It works from elsewhere, which is documented, until the job
// ends, and never again.
func TestAProofLivesAsLongAsItsJob(t *testing.T) {
	t.Parallel()
	r := newRig(t, sharedEngine(t))
	j := r.submit(spec("proven", "wait"))
	proof := r.proof(j)
	name, err := delegation.ParseProof(proof)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.exchange(proof), alice+" by "+name.Name; got != want {
		t.Errorf("while it runs the proof gives %q, want %q", got, want)
	}
	other := r.submit(spec("other", "wait"))
	if r.proof(other) == proof {
		t.Error("two jobs have one proof")
	}
	ended, err := r.Stop(t.Context(), alice, j.ID, 20*time.Second)
	if err != nil || ended.End != dockerjob.EndStopped || ended.ExitCode == nil || *ended.ExitCode != 0 {
		t.Errorf("stopped as %+v, %v", ended, err)
	}
	if got := r.exchange(proof); got != "row_revoked" {
		t.Errorf("after the end the proof gives %q", got)
	}
	if got := r.exchange(r.proof(other)); !strings.HasPrefix(got, alice) {
		t.Errorf("the other job's proof gives %q", got)
	}
	if got := strings.Contains(r.log.String(), proof[len("nmp_obo_v1."):]); got {
		t.Error("the log holds the proof")
	}
}

// TestEndsFromOutside kills and removes a container behind the backend's back.
func TestEndsFromOutside(t *testing.T) {
	t.Parallel()
	r := newRig(t, sharedEngine(t), func(s *dockerjob.Settings) { s.Resync = time.Hour }) // events alone must do
	for name, tc := range map[string]struct {
		do       func(id string) error
		wantEnd  string
		wantCode int
	}{
		"killed": {func(id string) error {
			_, err := r.docker.ContainerKill(t.Context(), id, client.ContainerKillOptions{})
			return err
		}, dockerjob.EndExited, 137},
		"removed": {func(id string) error {
			_, err := r.docker.ContainerRemove(t.Context(), id, client.ContainerRemoveOptions{Force: true})
			return err
		}, "", 137},
	} {
		j := r.submit(spec(name, "wait"))
		proof := r.proof(j)
		if err := tc.do(r.containerOf(j)); err != nil {
			t.Fatal(err)
		}
		ended, err := r.Wait(t.Context(), alice, j.ID)
		if err != nil || ended.State != dockerjob.Ended || (tc.wantEnd != "" && ended.End != tc.wantEnd) {
			t.Errorf("%s: ended as %+v, %v", name, ended, err)
		}
		// A container that is removed while it runs has no exit code, or the kill's, whichever is seen first.
		if tc.wantEnd == "" && ended.End != dockerjob.EndRemoved && ended.End != dockerjob.EndExited {
			t.Errorf("%s: ended as %q", name, ended.End)
		}
		if (ended.End == dockerjob.EndRemoved) != (ended.ExitCode == nil) || ended.ExitCode != nil && *ended.ExitCode != tc.wantCode {
			t.Errorf("%s: exit code %v", name, ended.ExitCode)
		}
		if got := r.exchange(proof); got != "row_revoked" {
			t.Errorf("%s: the proof gives %q", name, got)
		}
	}
	r.nothingLeft()
}

// TestStrangersSeeNothing: another submitter's job is as unknown as none.
func TestStrangersSeeNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, sharedEngine(t))
	j := r.submit(spec("mine", "say", "secret", "wait"))
	for _, who := range []string{bob, "", "unix:test:alic", "UNIX:TEST:ALICE"} {
		for _, ref := range []string{j.ID, "default/mine/main"} {
			var out bytes.Buffer
			_, err := r.Job(t.Context(), who, ref)
			_, err2 := r.Wait(t.Context(), who, ref)
			_, err3 := r.Stop(t.Context(), who, ref, 0)
			err4 := r.Logs(t.Context(), who, ref, dockerjob.LogOptions{}, &out, &out)
			for _, err := range []error{err, err2, err3, err4} {
				if !errors.Is(err, dockerjob.ErrNotFound) || err.Error() != dockerjob.ErrNotFound.Error() {
					t.Errorf("%q asks for %s: %v", who, ref, err)
				}
			}
			if out.Len() > 0 {
				t.Errorf("%q reads %q", who, out.String())
			}
		}
		if jobs, err := r.List(t.Context(), who); err != nil || len(jobs) > 0 {
			t.Errorf("%q sees %v, %v", who, jobs, err)
		}
	}
	// He may have a job of the same name, and means his own by it.
	his, err := r.Submit(t.Context(), bob, spec("mine", "wait"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Job(t.Context(), bob, "default/mine/main"); err != nil || got.ID != his.ID {
		t.Errorf("bob's is %+v, %v", got, err)
	}
	if got, err := r.Job(t.Context(), alice, "default/mine/main"); err != nil || got.ID != j.ID || got.State != dockerjob.Running {
		t.Errorf("alice's is %+v, %v", got, err)
	}
	if _, err := r.Submit(t.Context(), alice, spec("mine", "wait")); !errors.Is(err, dockerjob.ErrExists) {
		t.Errorf("a second one of alice's: %v", err)
	}
}

// TestNamesThatRunTogether: a-b and c make the same text as a and b-c, and are two jobs.
func TestNamesThatRunTogether(t *testing.T) {
	t.Parallel()
	r := newRig(t, sharedEngine(t))
	first, second := spec("a-b", "wait"), spec("a", "wait")
	first.Task, second.Task = "c", "b-c"
	j, k := r.submit(first), r.submit(second)
	if j.ID == k.ID {
		t.Fatal("they have one id")
	}
	volumes := r.volumes()
	if len(volumes) != 2 || volumes[0] == volumes[1] {
		t.Errorf("volumes: %v", volumes)
	}
	if got, err := r.Job(t.Context(), alice, "default/a-b/c"); err != nil || got.ID != j.ID {
		t.Errorf("a-b/c is %+v, %v", got, err)
	}
	if _, err := r.Stop(t.Context(), alice, k.ID, time.Minute); err != nil {
		t.Error(err)
	}
	if got := r.exchange(r.proof(j)); !strings.HasPrefix(got, alice) {
		t.Errorf("the other one's end took the proof along: %q", got)
	}
}

// TestManyAtOnce starts 200 jobs together. Each finds a proof of its own, which is no other's and names the job's own row, and says
// its own words; nothing is left of any.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, sharedEngine(t), func(s *dockerjob.Settings) { s.Timeout, s.Linger = 5*time.Minute, 5*time.Minute })
	began := time.Now()
	var wg sync.WaitGroup
	var mu sync.Mutex
	whose := map[string]int{} // by proof
	for i := range 200 {
		wg.Go(func() {
			words := fmt.Sprint("I am ", i)
			j, err := r.Submit(t.Context(), alice, spec(fmt.Sprintf("many-%d", i), "say", words, "cat", mount+"/token", "exit", fmt.Sprint(i%100)))
			if err != nil {
				t.Error(err)
				return
			}
			var out bytes.Buffer
			if err := r.Logs(t.Context(), alice, j.ID, dockerjob.LogOptions{Follow: true}, &out, &out); err != nil {
				t.Error(err)
			}
			ended, err := r.Wait(t.Context(), alice, j.ID)
			if err != nil || ended.ExitCode == nil || *ended.ExitCode != i%100 {
				t.Errorf("job %d ended as %+v, %v", i, ended, err)
			}
			said, proof, _ := strings.Cut(strings.TrimSpace(out.String()), "\n")
			p, err := delegation.ParseProof(proof)
			if err != nil || said != words || !strings.HasPrefix(p.Name, "docker-"+j.ID) {
				t.Errorf("job %d (%s) said %q, and its proof is of %q: %v", i, j.ID, said, p.Name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if other, taken := whose[proof]; taken {
				t.Errorf("jobs %d and %d have the same proof", i, other)
			}
			whose[proof] = i
		})
	}
	wg.Wait()
	if len(whose) != 200 {
		t.Errorf("%d proofs were seen", len(whose))
	}
	r.nothingLeft()
	if got := r.metric("lanyard_dockerjob_submissions_total", "started"); got != 200 {
		t.Errorf("%v were counted", got)
	}
	if got := r.metric("lanyard_dockerjob_running", ""); got != 0 {
		t.Errorf("%v are counted as running", got)
	}
	t.Logf("200 jobs in %v", time.Since(began).Round(time.Millisecond))
}

// TestOutputOfTheEnd: of a job that has said much, its end is kept, both streams in order.
func TestOutputOfTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, sharedEngine(t))
	j := r.submit(spec("talks", "fill", "20000", "say", "last words"))
	if _, err := r.Wait(t.Context(), alice, j.ID); err != nil {
		t.Fatal(err)
	}
	r.nothingLeft()
	var out bytes.Buffer
	if err := r.Logs(t.Context(), alice, j.ID, dockerjob.LogOptions{}, &out, &out); err != nil {
		t.Fatal(err)
	}
	if out.Len() > 64<<10 || out.Len() < 16<<10 || !strings.HasSuffix(out.String(), "line 19999\nlast words\n") {
		t.Errorf("%d bytes were kept, ending in %q", out.Len(), out.String()[max(0, out.Len()-40):])
	}
	out.Reset()
	if err := r.Logs(t.Context(), alice, j.ID, dockerjob.LogOptions{Tail: 2}, &out, &out); err != nil || out.String() != "line 19999\nlast words\n" {
		t.Errorf("the last two lines: %q, %v", out.String(), err)
	}
}

// TestAReaderMissesNothing: a container that ends at once waits for its reader.
func TestAReaderMissesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, sharedEngine(t), func(s *dockerjob.Settings) { s.Linger = time.Hour })
	j := r.submit(spec("fast", "fill", "20000"))
	if _, err := r.Wait(t.Context(), alice, j.ID); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := r.Logs(t.Context(), alice, j.ID, dockerjob.LogOptions{Follow: true}, &out, &out); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 20000 {
		t.Errorf("read %d lines", n)
	}
	r.nothingLeft() // once it has been read
}

// TestANewAuthority: a job finds the CA as it is when it is submitted, whatever it was when the backend started, and the check of its
// files knows that one.
func TestANewAuthority(t *testing.T) {
	t.Parallel()
	var now atomic.Value
	pemOf := func(text string) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(text)}))
	}
	old, both := pemOf("the old one"), pemOf("the old one")+pemOf("the new one, which is longer")
	now.Store(old)
	r := newRig(t, sharedEngine(t), func(s *dockerjob.Settings) { s.CA = func() []byte { return []byte(now.Load().(string)) } })
	if got := r.said(spec("before", "cat", mount+"/ca.crt")); strings.TrimSpace(got) != strings.TrimSpace(old) {
		t.Errorf("before, a job finds %q", got)
	}
	now.Store(both)
	if got := r.said(spec("after", "cat", mount+"/ca.crt")); strings.TrimSpace(got) != strings.TrimSpace(both) {
		t.Errorf("afterwards a job finds %q", got)
	}
	// It changes in the middle of a submission: one and the same is written and looked for.
	r.end()
	r.open()
	r.SetAt(func(s dockerjob.Step) error {
		if s == dockerjob.StepUnwritten {
			now.Store(old)
		}
		return nil
	})
	r.run()
	r.eventually("the backend is ready", func() bool { return r.Ready() == nil })
	if got := r.said(spec("between", "cat", mount+"/ca.crt")); strings.TrimSpace(got) != strings.TrimSpace(both) {
		t.Errorf("in between, a job finds %q", got)
	}
	now.Store("nothing that anybody could trust")
	if _, err := r.Submit(t.Context(), alice, spec("none", "wait")); err == nil || !strings.Contains(err.Error(), "CA certificate cannot be given") {
		t.Errorf("without a CA: %v", err)
	}
	r.nothingLeft()
}
