package dockerjob_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/dockerjob"
	"github.com/lanyard-k8s/lanyard/test/docker"
)

// TestNotStarted lists why a job does not start, and that nothing is left of it.
func TestNotStarted(t *testing.T) {
	t.Parallel()
	e := sharedEngine(t)
	r := newRig(t, e, func(s *dockerjob.Settings) { s.MaxJobsEach = 2 })
	varied := func(name string, changes ...string) string {
		t.Helper()
		if err := e.Vary(t.Context(), docker.ProbeImage, name, changes...); err != nil {
			t.Fatal(err)
		}
		return name
	}
	image := func(name string) dockerjob.Spec {
		s := spec("not")
		s.Image = name
		return s
	}
	for name, tc := range map[string]struct {
		who     string
		spec    dockerjob.Spec
		want    error
		text    string
		outcome string
	}{
		"the image is not there":                   {alice, image("nowhere.test/none:1"), dockerjob.ErrNoImage, "nothing is pulled", "no_image"},
		"the program is not there":                 {alice, image(varied("lanyard.test/noprogram:1", `ENTRYPOINT ["/none"]`)), dockerjob.ErrStart, "/none", "start_failed"},
		"a volume over the proof":                  {alice, image(varied("lanyard.test/shadow:1", "VOLUME "+mount+"/token")), dockerjob.ErrImage, mount, "image"},
		"a file in place of the proof's directory": {alice, image(planted(t, r, "lanyard.test/file:1", file(mount))), dockerjob.ErrImage, mount, "image"},
		"a submitter of the platform's":            {"system:serviceaccount:a:b", spec("not"), dockerjob.ErrSubmitter, "may not", "submitter"},
		"nobody":                                   {"", spec("not"), dockerjob.ErrSubmitter, "may not", "submitter"},
	} {
		before := r.metric("lanyard_dockerjob_submissions_total", tc.outcome)
		_, err := r.Submit(t.Context(), tc.who, tc.spec)
		if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
		if n, v := len(r.containers()), r.volumes(); n > 0 || len(v) > 0 {
			t.Errorf("%s: left %d containers, volumes %v", name, n, v)
		}
		if got := r.metric("lanyard_dockerjob_submissions_total", tc.outcome) - before; got != 1 {
			t.Errorf("%s: counted %v times as %s", name, got, tc.outcome)
		}
	}
	// What the Engine says of a program that is not there quotes it, and so does what its submitter is told; the log has none of it.
	s := image(varied("lanyard.test/marked:1", `ENTRYPOINT ["/m4rk3d-pr0gr4m"]`))
	s.Command = []string{"--token=m4rk3d"}
	if _, err := r.Submit(t.Context(), alice, s); !errors.Is(err, dockerjob.ErrStart) || !strings.Contains(err.Error(), "m4rk3d-pr0gr4m") {
		t.Errorf("a program that is not there: %v", err)
	}
	if log := r.log.String(); strings.Contains(log, "m4rk3d") || !strings.Contains(log, `"cause"="`+dockerjob.ErrStart.Error()+`"`) {
		t.Errorf("the log: %s", log)
	}
	r.submit(spec("one", "wait"))
	r.submit(spec("two", "wait"))
	if _, err := r.Submit(t.Context(), alice, spec("three", "wait")); !errors.Is(err, dockerjob.ErrTooMany) {
		t.Errorf("a third one: %v", err)
	}
	if _, err := r.Submit(t.Context(), bob, spec("three", "wait")); err != nil {
		t.Errorf("another submitter's: %v", err)
	}
}

// TestReservedNames: a request that sets a platform's variable is refused before anything is stored, and what the image sets is
// overridden with nothing.
func TestReservedNames(t *testing.T) {
	t.Parallel()
	e := sharedEngine(t)
	r := newRig(t, e)
	s := spec("reserved")
	for _, name := range []string{"NMP_PRINCIPAL", "MINE", "NEMO_WORKLOAD_TOKEN", "NMP_BASE_URL", "nmp_principal", "NMP_WORKLOAD_IDENTITY_TOKEN_FILE"} {
		s.Env = append(s.Env, dockerjob.EnvVar{Name: name, Value: "MARKED-VALUE"})
	}
	_, err := r.Submit(t.Context(), alice, s)
	var invalid *dockerjob.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("submitted with %v", err)
	}
	var fields []string
	for _, f := range invalid.Faults {
		fields = append(fields, f.Field)
	}
	if diff := cmp.Diff([]string{"env[0].name", "env[2].name", "env[3].name", "env[4].name", "env[5].name"}, fields); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if strings.Contains(err.Error()+r.log.String(), "MARKED-VALUE") {
		t.Error("the value is told")
	}
	if rows, err := r.store.Rows(t.Context(), delegation.RowQuery{}); err != nil || len(rows) > 0 {
		t.Errorf("%d rows were made (%v)", len(rows), err)
	}
	if err := e.Vary(t.Context(), docker.ProbeImage, "lanyard.test/reserved:1", "ENV NMP_PRINCIPAL=root NEMO_WORKLOAD_TOKEN=x NMP_ACCESS_TOKEN=x",
		"ENV NMP_WORKLOAD_IDENTITY_TOKEN_FILE=/elsewhere NMP_BASE_URL=https://elsewhere NMP_FILES_URL=https://elsewhere nmp_principal=x FREE=stays"); err != nil {
		t.Fatal(err)
	}
	s = spec("image")
	s.Image = "lanyard.test/reserved:1"
	for _, name := range []string{"NMP_PRINCIPAL", "NEMO_WORKLOAD_TOKEN", "NMP_ACCESS_TOKEN", "NMP_FILES_URL", "nmp_principal", "NMP_WORKLOAD_IDENTITY_TOKEN_FILE", "NMP_BASE_URL", "FREE"} {
		s.Command = append(s.Command, "env", name)
	}
	if got, want := r.said(s), "\n\n\n\n\n"+mount+"/token\nhttps://lanyard.internal:8443\nstays\n"; got != want {
		t.Errorf("the job finds %q, want %q", got, want)
	}
}

// fixed draws the same bytes again and again, so that a job's name is known beforehand.
type fixed struct{}

func (fixed) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(i + 1)
	}
	return len(p), nil
}

// TestAVolumeMadeBeforehand lays a volume of the job's name in wait. The job does not start, the volume stays what it was, and
// nothing was written into it.
func TestAVolumeMadeBeforehand(t *testing.T) {
	t.Parallel()
	r := newRig(t, sharedEngine(t))
	r.SetRandom(fixed{})
	row := delegation.DockerName("default", "job", "await/main", "0102030405060708090a0b0c0d0e0f10")
	name := "task-workload-identity-default-await-main-" + row[len("docker-"):][:12]
	if _, err := r.docker.VolumeCreate(t.Context(), client.VolumeCreateOptions{Name: name}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = r.docker.VolumeRemove(context.Background(), name, client.VolumeRemoveOptions{Force: true})
	})
	if _, err := r.Submit(t.Context(), alice, spec("await", "wait")); !errors.Is(err, dockerjob.ErrForeignVolume) {
		t.Fatalf("submitted with %v", err)
	}
	if got, err := r.docker.VolumeInspect(t.Context(), name, client.VolumeInspectOptions{}); err != nil || len(got.Volume.Labels) > 0 {
		t.Errorf("the volume is %+v, %v", got.Volume, err)
	}
	made, err := r.docker.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Config: &container.Config{Image: docker.ProbeImage}, HostConfig: &container.HostConfig{Binds: []string{name + ":/v"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_, _ = r.docker.ContainerRemove(context.Background(), made.ID, client.ContainerRemoveOptions{Force: true})
	}()
	if _, err := r.docker.ContainerStatPath(t.Context(), made.ID, client.ContainerStatPathOptions{Path: "/v/token"}); err == nil {
		t.Error("a proof was written into it")
	}
	if got := r.metric("lanyard_dockerjob_submissions_total", "foreign_volume"); got != 1 {
		t.Errorf("counted %v times", got)
	}
	r.nothingLeft()
	// The name was drawn: without the drawn part known, nobody can lie in wait. With it free again the job starts.
	if _, err := r.docker.VolumeRemove(t.Context(), name, client.VolumeRemoveOptions{Force: true}); err == nil || !strings.Contains(err.Error(), "volume is in use") {
		t.Errorf("the volume is not in use by the looking container: %v", err)
	}
}

// TestGivenUp: a submitter who does not wait gets nothing started.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	r := prepare(t, sharedEngine(t), func(s *dockerjob.Settings) { s.Resync = time.Hour })
	r.open()
	ctx, cancel := context.WithCancel(t.Context())
	r.SetAt(func(s dockerjob.Step) error {
		if s == dockerjob.StepContainer {
			cancel()
		}
		return nil
	})
	r.run()
	r.eventually("the backend is ready", func() bool { return r.Ready() == nil })
	if _, err := r.Submit(ctx, alice, spec("given-up", "wait")); !errors.Is(err, context.Canceled) {
		t.Errorf("submitted with %v", err)
	}
	r.nothingLeft()
	if got := r.metric("lanyard_dockerjob_submissions_total", "aborted"); got != 1 {
		t.Errorf("counted %v times", got)
	}
}

// TestStoppedWhileItStarts: a job can be stopped before it runs.
func TestStoppedWhileItStarts(t *testing.T) {
	t.Parallel()
	r := prepare(t, sharedEngine(t), func(s *dockerjob.Settings) { s.Resync = time.Hour })
	r.open()
	stopped := make(chan error, 1)
	r.SetAt(func(s dockerjob.Step) error {
		if s == dockerjob.StepVolume {
			jobs, err := r.List(t.Context(), alice)
			if err != nil || len(jobs) != 1 || jobs[0].State != dockerjob.Starting {
				t.Errorf("alice sees %+v, %v", jobs, err)
				return nil
			}
			began := make(chan struct{})
			go func() {
				close(began)
				_, err := r.Stop(t.Context(), alice, jobs[0].ID, 0)
				stopped <- err
			}()
			<-began
			r.eventually("the stop arrived", func() bool { return r.Stopping(jobs[0].ID) })
		}
		return nil
	})
	r.run()
	r.eventually("the backend is ready", func() bool { return r.Ready() == nil })
	if _, err := r.Submit(t.Context(), alice, spec("early", "wait")); !errors.Is(err, context.Canceled) {
		t.Errorf("submitted with %v", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stopped with %v", err)
	}
	r.nothingLeft()
}

// TestLogsWithoutTheirReader: a reader who goes away is no fault of the Engine's.
func TestLogsWithoutTheirReader(t *testing.T) {
	t.Parallel()
	r := newRig(t, sharedEngine(t))
	j := r.submit(spec("read", "fill", "100", "wait"))
	broken := errors.New("the reader's own")
	if err := r.Logs(t.Context(), alice, j.ID, dockerjob.LogOptions{Follow: true}, failing{broken}, io.Discard); !errors.Is(err, broken) || errors.Is(err, dockerjob.ErrInterrupted) {
		t.Errorf("logs end with %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Logs(ctx, alice, j.ID, dockerjob.LogOptions{Follow: true}, io.Discard, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("logs end with %v", err)
	}
	r.eventually("the tail can be read", func() bool {
		var out bytes.Buffer
		err := r.Logs(t.Context(), alice, j.ID, dockerjob.LogOptions{Tail: 2}, &out, &out)
		return err == nil && out.String() == "line 98\nline 99\n"
	})
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestLinksInTheImage: Docker follows an image's own links inside of its root, for the mount as for the copy, so that the proof
// is where it belongs, read-only.
func TestLinksInTheImage(t *testing.T) {
	t.Parallel()
	r := newRig(t, sharedEngine(t))
	for name, s := range map[string]dockerjob.Spec{
		"of the directory": {Image: planted(t, r, "lanyard.test/link:1", link(mount, "/tmp"))},
		"above it":         {Image: planted(t, r, "lanyard.test/above:1", link("/var/run", "../../../run"))},
		"to the kernel's":  {Image: planted(t, r, "lanyard.test/kernel:1", link("/var/run/secrets", "/proc/1/root"))},
	} {
		s.Workspace, s.Job, s.Task = "default", "links", "main"
		s.Command = []string{"mode", mount + "/token", "write", mount + "/other"}
		if got, want := r.said(s), "-r--r--r-- 0 0 129\nerror: open "+mount+"/other: read-only file system\n"; got != want {
			t.Errorf("%s: the job found %q, want %q", name, got, want)
		}
	}
	r.nothingLeft()
}

// link and file are what an image can have at the proof's place.
func link(name, to string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeSymlink, Name: name[1:], Linkname: to, Mode: 0o777}
}

func file(name string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name[1:], Mode: 0o666}
}

// planted makes an image with something in it.
func planted(t *testing.T, r *rig, name string, h *tar.Header) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(w.WriteHeader(h), w.Close()); err != nil {
		t.Fatal(err)
	}
	made, err := r.docker.ContainerCreate(t.Context(), client.ContainerCreateOptions{Image: docker.ProbeImage})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.docker.CopyToContainer(t.Context(), made.ID, client.CopyToContainerOptions{DestinationPath: "/", Content: &b}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.docker.ContainerCommit(t.Context(), made.ID, client.ContainerCommitOptions{Reference: name}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.docker.ContainerRemove(t.Context(), made.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestTheEnginesAddress: a bridge network has a gateway, and what has none is no place for jobs.
func TestTheEnginesAddress(t *testing.T) {
	t.Parallel()
	e := sharedEngine(t)
	engine, err := dockerjob.NewEngine(e.Host())
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	if err := engine.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if got, err := engine.Gateway(t.Context(), "bridge"); err != nil || got != e.Gateway() {
		t.Errorf("the bridge's gateway is %v, %v", got, err)
	}
	for network, want := range map[string]string{"host": "it has no gateway", "nowhere": "no such"} {
		if _, err := engine.Gateway(t.Context(), network); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("network %s: %v", network, err)
		}
	}
	if _, err := dockerjob.NewEngine("nonsense"); err == nil || !strings.Contains(err.Error(), "address of the Docker Engine: ") {
		t.Errorf("for an address that is none: %v", err)
	}
	nobody, err := dockerjob.NewEngine("unix:///nowhere/docker.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close()
	if err := nobody.Ping(t.Context()); !errors.Is(err, dockerjob.ErrEngine) {
		t.Errorf("nobody answers with %v", err)
	}
}
