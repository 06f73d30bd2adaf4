package dockerjob_test

import (
	"errors"
	"io"
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
