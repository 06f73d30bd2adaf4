package manifest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/mutate/manifest"
)

func TestTemplatesAreFoundInEveryShape(t *testing.T) {
	t.Parallel()
	const pod = `{"metadata": {"labels": {"lanyard.dev/role": "none"}}, "spec": {"containers": [{"name": "c"}]}}`
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"a pod":                        {pod, []string{""}},
		"a job":                        {`{"spec": {"template": ` + pod + `}}`, []string{"spec.template"}},
		"a cron job":                   {`{"spec": {"jobTemplate": {"spec": {"template": ` + pod + `}}}}`, []string{"spec.jobTemplate.spec.template"}},
		"a job set":                    {`{"spec": {"replicatedJobs": [{"template": {"spec": {"template": ` + pod + `}}}]}}`, []string{"spec.replicatedJobs[0].template.spec.template"}},
		"a PyTorchJob, Master only":    {`{"spec": {"pytorchReplicaSpecs": {"Master": {"template": ` + pod + `}}}}`, []string{"spec.pytorchReplicaSpecs.Master.template"}},
		"a RayJob":                     {`{"spec": {"rayClusterSpec": {"headGroupSpec": {"template": ` + pod + `}, "workerGroupSpecs": [{"template": ` + pod + `}]}}}`, []string{"spec.rayClusterSpec.headGroupSpec.template", "spec.rayClusterSpec.workerGroupSpecs[0].template"}},
		"a RayJob with a selector":     {`{"spec": {"clusterSelector": {"a": "b"}}}`, nil},
		"a Volcano job without tasks":  {`{"spec": {"tasks": []}}`, nil},
		"a Volcano job":                {`{"spec": {"tasks": [{"replicas": 1}, {"template": ` + pod + `}]}}`, []string{"spec.tasks[1].template"}},
		"only init containers":         {`{"spec": {"template": {"spec": {"initContainers": []}}}}`, []string{"spec.template"}},
		"a template inside a template": {`{"spec": {"containers": [], "hook": {"template": ` + pod + `}}}`, []string{"spec.hook.template", ""}},
		"an unknown key":               {`{"x": {"strange.key/": ` + pod + `}}`, []string{"x[strange.key/]"}},
		"a spec without lists":         {`{"spec": {"containers": {"a": 1}}}`, nil},
		"a wrong case":                 {`{"Spec": {"containers": []}}`, nil},
		"managed fields":               {`{"metadata": {"managedFields": [` + pod + `]}}`, nil},
		"too deep":                     {strings.Repeat(`{"a":`, 70) + pod + strings.Repeat("}", 70), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := manifest.Templates([]byte(tc.text))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range found {
				got = append(got, f.Path)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("paths differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTemplatesAreReadLeniently(t *testing.T) {
	t.Parallel()
	found, err := manifest.Templates([]byte(`{"spec": {"template": {"metadata": 7, "spec": {
		"containers": ["x", null, {"name": 1, "env": {"A": "b"}}, {"name": "c", "env": [{"name": "NMP_PRINCIPAL", "value": 7}]}],
		"volumes": {}, "terminationGracePeriodSeconds": 1.5}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	cs := found[0].Pod.Spec.Containers
	if len(cs) != 4 || len(cs[3].Env) != 1 || cs[3].Env[0].Name != "NMP_PRINCIPAL" {
		t.Fatalf("got %d containers, the last without its variable", len(cs))
	}
	if cs[3].Env[0].Empty() {
		t.Error("a value of a strange type counts as empty")
	}
}

func TestTemplatesRefuseWhatIsNotAnObject(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a list": "[]", "nothing": "", "a repeated key": `{"a": 1, "a": 2}`, "more after it": "{} 1", "cut off": `{"a": [`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := manifest.Templates([]byte(text)); err == nil {
				t.Error("accepted, want an error")
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"metadata": {"labels": {"lanyard.dev/role": "x"}}, "spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "marked-secret"}]}], "volumes": [{"name": "v"}]}}`))
	f.Add([]byte(`{"spec": {"template": {"spec": {"containers": [{"env": [{"value": 1, "name": "\ud800"}]}]}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, podErr := manifest.Decode(text)
		_, metaErr := manifest.DecodeMeta(text)
		_, templatesErr := manifest.Templates(text)
		if podErr == nil && (metaErr != nil || templatesErr != nil) {
			t.Errorf("a pod that is read whole is refused in part: %v, %v", metaErr, templatesErr)
		}
	})
}

// TestTemplatesInEachOther are not read as often as they lie in each other.
func TestTemplatesInEachOther(t *testing.T) {
	t.Parallel()
	text := `"` + strings.Repeat("x", 10_000) + `"`
	for range 30 {
		text = `{"spec":{"containers":[],"in":` + text + `}}`
	}
	got, err := manifest.Templates([]byte(text))
	if err != nil || len(got) == 0 {
		t.Fatalf("%d templates, %v", len(got), err)
	}
	again := 0
	for _, one := range got {
		again += len(one.Raw)
	}
	if again > 4*len(text) {
		t.Errorf("%d bytes of text are read again %d times", len(text), again/len(text))
	}
}

func TestAnErrorInATemplateNamesTheWholePath(t *testing.T) {
	t.Parallel()
	_, err := manifest.Templates([]byte(`{"spec":{"template":{"spec":{"containers":[` + strings.Repeat("{},", 1000) + `{}]}}}}`))
	var malformed *manifest.Error
	if !errors.As(err, &malformed) || malformed.Path != "spec.template.spec.containers[999]" {
		t.Errorf("got %v", err)
	}
}
