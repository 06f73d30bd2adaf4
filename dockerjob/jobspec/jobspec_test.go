package jobspec_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lanyard-k8s/lanyard/dockerjob/jobspec"
	"github.com/lanyard-k8s/lanyard/mutate/reserved"
)

func good() jobspec.Spec {
	return jobspec.Spec{Workspace: "default", Job: "train", Task: "main", Image: "ghcr.io/acme/train:1"}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	limits := jobspec.Limits{MaxCPU: resource.MustParse("2"), MaxMemory: resource.MustParse("1Gi")}
	for name, tc := range map[string]struct {
		change func(*jobspec.Spec)
		want   []string // "field: type"
	}{
		"as it should be": {func(*jobspec.Spec) {}, nil},
		"everything at its largest": {func(s *jobspec.Spec) {
			s.Workspace, s.CPU, s.Memory = strings.Repeat("a", 63), resource.MustParse("2"), resource.MustParse("1Gi")
			s.Env = []jobspec.EnvVar{{Name: "A.b-C_1", Value: strings.Repeat("x", jobspec.MaxText)}, {Name: "NMP_URL"}, {Name: "NEMO_ACCESS_TOKEN"}}
		}, nil},
		"an image's id":      {func(s *jobspec.Spec) { s.Image = "sha256:" + strings.Repeat("a", 64) }, nil},
		"an image by digest": {func(s *jobspec.Spec) { s.Image = "a/b@sha256:" + strings.Repeat("a", 64) }, nil},
		"nothing at all": {func(s *jobspec.Spec) { *s = jobspec.Spec{} }, []string{
			"image: Required value", "job: Required value", "task: Required value", "workspace: Required value",
		}},
		"names that are none": {func(s *jobspec.Spec) { s.Workspace, s.Job, s.Task = "-a", "A", "a_b" }, []string{
			"job: Invalid value", "task: Invalid value", "workspace: Invalid value",
		}},
		"names that climb":           {func(s *jobspec.Spec) { s.Workspace, s.Job = "..", "a/b" }, []string{"job: Invalid value", "workspace: Invalid value"}},
		"a name of 64":               {func(s *jobspec.Spec) { s.Task = strings.Repeat("a", 64) }, []string{"task: Invalid value"}},
		"a name with a line's end":   {func(s *jobspec.Spec) { s.Task = "a\n" }, []string{"task: Invalid value"}},
		"an image that is none":      {func(s *jobspec.Spec) { s.Image = "UPPER/../x" }, []string{"image: Invalid value"}},
		"an image of options":        {func(s *jobspec.Spec) { s.Image = "--privileged" }, []string{"image: Invalid value"}},
		"too little":                 {func(s *jobspec.Spec) { s.CPU, s.Memory = resource.MustParse("1m"), resource.MustParse("1Ki") }, []string{"cpu: Invalid value", "memory: Invalid value"}},
		"less than nothing":          {func(s *jobspec.Spec) { s.CPU, s.Memory = resource.MustParse("-1"), resource.MustParse("-1Gi") }, []string{"cpu: Invalid value", "memory: Invalid value"}},
		"more than is allowed":       {func(s *jobspec.Spec) { s.CPU, s.Memory = resource.MustParse("3"), resource.MustParse("2Gi") }, []string{"cpu: Invalid value", "memory: Invalid value"}},
		"a variable without a name":  {env(""), []string{"env[0].name: Required value"}},
		"a variable twice":           {env("A", "A"), []string{"env[1].name: Duplicate value"}},
		"a name with an equals sign": {env("A=B"), []string{"env[0].name: Invalid value"}},
		"a name with a space":        {env("A B"), []string{"env[0].name: Invalid value"}},
		"a name that is too long":    {env(strings.Repeat("A", 300)), []string{"env[0].name: Too long"}},
		"look-alikes":                {env("nmp_principal", "NMP.PRINCIPAL", "NMP_PRINCIPAL\u200b", "NMP_PRINCIPAL=x"), []string{"env[0].name: Forbidden", "env[1].name: Forbidden", "env[2].name: Forbidden", "env[3].name: Forbidden"}},
		"a zero byte": {func(s *jobspec.Spec) {
			s.Env = []jobspec.EnvVar{{Name: "A", Value: "a\x00b"}}
			s.Command = []string{"\x00"}
		}, []string{"command[0]: Invalid value", "env[0].value: Invalid value"}},
		"no text": {func(s *jobspec.Spec) { s.Command = []string{"\xff"} }, []string{"command[0]: Invalid value"}},
		"a value that is too long": {func(s *jobspec.Spec) {
			s.Env = []jobspec.EnvVar{{Name: "A", Value: strings.Repeat("x", jobspec.MaxText+1)}}
		}, []string{"env[0].value: Too long"}},
		"too many variables": {func(s *jobspec.Spec) { s.Env = make([]jobspec.EnvVar, jobspec.MaxEnv+1) }, []string{"env: Too many"}},
		"too many arguments": {func(s *jobspec.Spec) { s.Command = make([]string, jobspec.MaxArgs+1) }, []string{"command: Too many"}},
		"too much in all":    {func(s *jobspec.Spec) { s.Command = slices.Repeat([]string{strings.Repeat("x", jobspec.MaxText)}, 5) }, []string{"env: Too long"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := good()
			tc.change(&s)
			var got []string
			for _, f := range jobspec.Validate(s, limits) {
				got = append(got, f.Field+": "+f.Type.String())
				if strings.ContainsAny(f.Error(), "\n\x00") || len(f.Error()) > 400 {
					t.Errorf("a message that cannot be shown: %q", f.Error())
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func env(names ...string) func(*jobspec.Spec) {
	return func(s *jobspec.Spec) {
		for _, n := range names {
			s.Env = append(s.Env, jobspec.EnvVar{Name: n, Value: "MARKED"})
		}
	}
}

// TestPlatformNames: every name that is the platform's is refused whatever its value, the empty one too, and no message repeats a
// value.
func TestPlatformNames(t *testing.T) {
	t.Parallel()
	names := slices.Concat(reserved.Exact(), reserved.Endpoints(), []string{"NMP_FILES_URL"})
	for _, p := range reserved.Prefixes() {
		names = append(names, p, p+"ANYTHING")
	}
	for _, name := range names {
		for _, value := range []string{"MARKED", ""} {
			s := good()
			s.Env = []jobspec.EnvVar{{Name: "MINE", Value: value}, {Name: name, Value: value}}
			got := jobspec.Validate(s, jobspec.Limits{})
			if len(got) != 1 || got[0].Field != "env[1].name" || !strings.Contains(got[0].Error(), "is set by the platform and may not be set by a job; remove it") {
				t.Errorf("%s=%q: %v", name, value, got)
			}
			if strings.Contains(fmt.Sprint(got), "MARKED") {
				t.Errorf("%s: the value is told", name)
			}
		}
	}
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	image := []string{"PATH=/bin", "NMP_PRINCIPAL=x", "NMP_BASE_URL=https://elsewhere", "NMP_FILES_URL=", "nmp_principal=y", "NMP_PRINCIPAL=twice", "NEMO_WORKFLOW_X", "MINE=NMP_PRINCIPAL"}
	want := []string{"NMP_PRINCIPAL", "NMP_FILES_URL", "nmp_principal", "NEMO_WORKFLOW_X"}
	if diff := cmp.Diff(want, jobspec.Overrides(image, []string{"NMP_BASE_URL"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzValidate: what passes names no variable that is the platform's, and nothing twice; what is called the same is the same.
func FuzzValidate(f *testing.F) {
	f.Add("default", "train", "main", "a:1", "MINE", "x", "true")
	f.Add("a", "b", "c", "sha256:0", "NMP_PRINCIPAL", "", "")
	f.Add("a-b", "c", "d", "a", "n\u200bmp_principal", "\x00", "\xff")
	f.Fuzz(func(t *testing.T, workspace, job, task, image, name, value, arg string) {
		s := jobspec.Spec{Workspace: workspace, Job: job, Task: task, Image: image, Env: []jobspec.EnvVar{{Name: name, Value: value}}, Command: []string{arg}}
		if len(jobspec.Validate(s, jobspec.Limits{})) > 0 {
			return
		}
		_, alike := reserved.LookAlike(name)
		if reserved.Reserved(name) || reserved.Endpoint(name) || alike || strings.ContainsAny(name, "= \x00") || name == "" {
			t.Errorf("%q passes as a variable", name)
		}
		if strings.ContainsRune(value+arg, 0) || strings.Count(s.Names(), "/") != 2 || image == "" {
			t.Errorf("%+v passes", s)
		}
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back jobspec.Spec
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s, back); diff != "" {
			t.Errorf("its JSON says something else:\n%s", diff)
		}
	})
}
