package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/dockerjob/jobspec"
)

func TestEnvironmentIsReadAsDockerDoes(t *testing.T) {
	t.Setenv("LANYARD_TEST_HERE", "from here")
	file := filepath.Join(t.TempDir(), "job.env")
	if err := os.WriteFile(file, []byte("# comment\n\n  A=1\r\nB= two  \nLANYARD_TEST_HERE\nC==\nD=#x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := readEnvironment([]string{file, "-"}, []string{"A=3", "E="}, strings.NewReader("F=stdin"))
	if err != nil {
		t.Fatal(err)
	}
	want := []jobspec.EnvVar{
		{Name: "A", Value: "3"}, {Name: "B", Value: " two  "}, {Name: "LANYARD_TEST_HERE", Value: "from here"}, {Name: "C", Value: "="},
		{Name: "D", Value: "#x"}, {Name: "F", Value: "stdin"}, {Name: "E", Value: ""},
	}
	if diff := cmp.Diff(want, e.vars); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for field, want := range map[string]string{
		"env[0].name": "--env", "env[1].value": file + ":4", "env[5].name": "-:1", "env[99]": "--env", "image": "--image", "command[2]": "the command", "x": "x",
	} {
		if got := e.place(field); got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
}

// TestAJobsNameIsAlwaysOne: whatever the image is called, the name that is made from it passes.
func TestAJobsNameIsAlwaysOne(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	for image, prefix := range map[string]string{
		"trainer:1": "trainer-", "registry.example:5000/team/Big_Model@sha256:" + strings.Repeat("a", 64): "big-model-", "": "job-", ":": "job-",
		"___": "job-", strings.Repeat("long", 50): "longlong", "a/": "job-", strings.Repeat("a", 39) + "-bc": "aaa",
	} {
		got := jobName(image)
		if !name.MatchString(got) || !strings.HasPrefix(got, prefix) {
			t.Errorf("%q: %q", image, got)
		}
		if got == jobName(image) {
			t.Errorf("%q: two jobs have one name", image)
		}
	}
}
