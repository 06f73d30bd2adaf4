package dockerjob_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/client"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/lanyard-k8s/lanyard/dockerjob"
	"github.com/lanyard-k8s/lanyard/test/docker"
)

// TestAnImageWithoutACommand: a job gives one, and its container runs; without one the job is refused by its field, and leaves nothing.
func TestAnImageWithoutACommand(t *testing.T) {
	t.Parallel()
	r := newRig(t, sharedEngine(t))
	s := spec("bare", "/probe", "env", "MINE")
	s.Image = bareImage(t, r, "lanyard.test/bare:1")
	s.Env = []dockerjob.EnvVar{{Name: "MINE", Value: "it ran"}}
	if got := r.said(s); got != "it ran\n" {
		t.Errorf("the job said %q", got)
	}
	s.Job, s.Command = "idle", nil
	_, err := r.Submit(t.Context(), alice, s)
	var invalid *dockerjob.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("a job without a command: %v", err)
	}
	want := field.ErrorList{field.Required(field.NewPath("command"), "the image names none; say what to run in it")}
	if diff := cmp.Diff(want, invalid.Faults, cmp.Comparer(func(a, b *field.Error) bool { return a.Error() == b.Error() })); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	r.nothingLeft()
}

// TestNoJobStartsThatReachesNobody: neither one that comes while the exchange is not reached, nor one that was about to start.
func TestNoJobStartsThatReachesNobody(t *testing.T) {
	t.Parallel()
	r := prepare(t, sharedEngine(t))
	var asked, good atomic.Int64
	r.reached = func(context.Context) (netip.Addr, error) {
		if asked.Add(1) > good.Load() {
			return netip.Addr{}, fmt.Errorf("%w: a test says so", dockerjob.ErrUnreachable)
		}
		return netip.Addr{}, nil
	}
	r.start()
	for n := range int64(2) { // how often it is reached before it is not
		asked.Store(0)
		good.Store(n)
		if _, err := r.Submit(t.Context(), alice, spec("lost", "say", "on")); !errors.Is(err, dockerjob.ErrUnreachable) {
			t.Errorf("reached %d times: %v", n, err)
		}
		r.nothingLeft()
		if got := r.metric("lanyard_dockerjob_submissions_total", "unreachable"); got != float64(n+1) {
			t.Errorf("reached %d times: counted %v", n, got)
		}
	}
	good.Store(1000)
	if got := r.said(spec("lost", "say", "on")); got != "on\n" {
		t.Errorf("afterwards a job said %q", got)
	}
}

// TestTheServedAddress: what the exchange's name means in a container is the address that is served, whatever the Engine takes for the
// machine's; and a container that was told an address which is served no more is not started.
func TestTheServedAddress(t *testing.T) {
	t.Parallel()
	r := prepare(t, sharedEngine(t))
	var asked atomic.Int64
	var moves atomic.Bool
	r.reached = func(context.Context) (netip.Addr, error) {
		if n := asked.Add(1); moves.Load() && n > 1 {
			return netip.MustParseAddr("192.0.2.8"), nil
		}
		return netip.MustParseAddr("192.0.2.7"), nil
	}
	r.start()
	if got := r.said(spec("served", "hosts", "lanyard.internal")); got != "192.0.2.7\n" {
		t.Errorf("the name means %q in the job", got)
	}
	asked.Store(0)
	moves.Store(true)
	if _, err := r.Submit(t.Context(), alice, spec("moved", "wait")); !errors.Is(err, dockerjob.ErrUnreachable) || !strings.Contains(err.Error(), "its address has changed") {
		t.Errorf("submitted with %v", err)
	}
	r.nothingLeft()
}

// bareImage makes an image of the probe's files and of no configuration.
func bareImage(t *testing.T, r *rig, name string) string {
	t.Helper()
	made, err := r.docker.ContainerCreate(t.Context(), client.ContainerCreateOptions{Image: docker.ProbeImage})
	if err != nil {
		t.Fatal(err)
	}
	files, err := r.docker.ContainerExport(t.Context(), made.ID, client.ContainerExportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = files.Close() }()
	answer, err := r.docker.ImageImport(t.Context(), client.ImageImportSource{Source: files, SourceName: "-"}, name, client.ImageImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Close() }()
	if _, err := io.Copy(io.Discard, answer); err != nil {
		t.Fatal(err)
	}
	if _, err := r.docker.ContainerRemove(t.Context(), made.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	return name
}
