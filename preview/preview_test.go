package preview

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/mutate/manifest"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// previewer is one with both roles on, for the given claims.
func previewer(roles ...mutate.Role) Previewer {
	job := mutate.GroupKind{Group: "batch", Kind: "Job"}
	return Previewer{
		Rules: mutate.Rules{
			Mode: mutate.Enforce,
			Publisher: &mutate.PublisherRules{Token: mutate.Token{
				Audience: wire.DefaultPublisherAudience, ExpirationSeconds: 3600, MaxExpirationSeconds: 86400, MountPath: wire.DefaultPublisherMountPath,
			}},
			Job: &mutate.JobRules{
				Token:   mutate.Token{Audience: wire.DefaultJobAudience, ExpirationSeconds: 600, MaxExpirationSeconds: 3600, MountPath: wire.DefaultJobMountPath},
				BaseURL: "https://exchange.example.com", CAConfigMap: "lanyard-ca", Kinds: []mutate.GroupKind{job},
			},
		},
		Who: Who{Roles: roles}, Namespace: "default", Username: "alice",
		Stamped: []Kind{{GroupKind: job, Creators: []string{"system:serviceaccount:kube-system:job-controller"}}},
	}
}

func document(t *testing.T, raw []byte) Document {
	t.Helper()
	docs, faults := Read("f", raw)
	if len(docs) != 1 || len(faults) != 0 {
		t.Fatalf("%d documents, faults %v", len(docs), faults)
	}
	return docs[0]
}

// TestPreviewIsTheWebhook holds the preview of a pod against the webhook's own decisions: the same patch, and after it
// nothing to say.
func TestPreviewIsTheWebhook(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string][]byte{"small": podtest.Small(), "medium": podtest.Medium(), "large": podtest.Large()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, d := previewer(mutate.Job), document(t, raw)
			res := p.Preview(d)
			if res.Verdict != Changed {
				t.Fatalf("verdict = %s (%v %v)", res.Verdict, res.Violations, res.Err)
			}
			want, err := mutate.Pod(mutate.Request{
				Entry: mutate.EntryJob, Operation: mutate.Create, Kind: podKind, Namespace: "team", Username: "alice", Object: raw,
			}, p.Rules)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Patch, res.Patch); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
			if again := p.Preview(document(t, res.After)); again.Verdict != Unchanged {
				t.Errorf("the second preview is %s, patch %v", again.Verdict, again.Patch)
			}
		})
	}
}

// TestTemplateIsThePod holds that a template shows exactly what the pod that its controller makes would get.
func TestTemplateIsThePod(t *testing.T) {
	t.Parallel()
	spec := podtest.Pod(podtest.Owner("batch/v1", "Job"), podtest.Containers(podtest.Container("a", podtest.EnvFrom("")), podtest.Container("b")))
	p := previewer(mutate.Job)
	job := podtest.Object{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": podtest.Object{"name": "j"},
		"spec": podtest.Object{"template": podtest.Object{"spec": spec["spec"]}},
	}
	res := p.Preview(document(t, job.JSON()))
	pod, err := mutate.Pod(mutate.Request{
		Entry: mutate.EntryJob, Operation: mutate.Create, Kind: podKind, Namespace: "default",
		Username: "system:serviceaccount:kube-system:job-controller", Object: spec.JSON(),
	}, p.Rules)
	if err != nil {
		t.Fatal(err)
	}
	admitted, err := applyPatch(spec.JSON(), pod.Patch)
	if err != nil {
		t.Fatal(err)
	}
	var wantPod struct{ Spec, Metadata map[string]any }
	var gotJob struct {
		Metadata map[string]any
		Spec     struct {
			Template struct{ Spec, Metadata map[string]any }
		}
	}
	unmarshal(t, admitted, &wantPod)
	unmarshal(t, res.After, &gotJob)
	if diff := cmp.Diff(wantPod.Spec, gotJob.Spec.Template.Spec); diff != "" {
		t.Errorf("spec of the template (-pod +template):\n%s", diff)
	}
	if diff := cmp.Diff(wantPod.Metadata["annotations"], gotJob.Spec.Template.Metadata["annotations"]); diff != "" {
		t.Errorf("annotations of the template (-pod +template):\n%s", diff)
	}
	if _, owned := gotJob.Spec.Template.Metadata["ownerReferences"]; owned {
		t.Error("the template names an owner")
	}
	want := map[string]any{wire.AnnotationCreatedBy: "alice"}
	if diff := cmp.Diff(want, gotJob.Metadata["annotations"]); diff != "" {
		t.Errorf("the job's annotations (-want +got):\n%s", diff)
	}
}

func unmarshal(t *testing.T, raw []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pod  podtest.Object
		want violation.Violation // without its message
	}{
		"a reserved variable": {
			podtest.Pod(podtest.Containers(podtest.Container("main", podtest.Env(wire.EnvPrincipal, "s3cret")))),
			violation.Violation{Reason: violation.ReservedEnv, Field: "spec.containers[0].env[0].name"},
		},
		"a volume under our name": {
			podtest.Pod(podtest.Volume(`{"name":"nmp-workload-identity","emptyDir":{}}`)),
			violation.Violation{Reason: violation.VolumeConflict, Field: "spec.volumes[0]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res := previewer(mutate.Job).Preview(document(t, tc.pod.JSON()))
			if res.Verdict != Refused || res.Patch != nil {
				t.Fatalf("verdict = %s with patch %v", res.Verdict, res.Patch)
			}
			if len(res.Violations) != 1 {
				t.Fatalf("violations = %+v, want one", res.Violations)
			}
			got := res.Violations[0]
			if strings.Contains(got.Message, "s3cret") {
				t.Error("the message holds the value")
			}
			got.Message = ""
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("violation (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRepeatedKeys shows that an object that repeats a key in a way that only JSON readers see is not taken.
func TestRepeatedKeys(t *testing.T) {
	t.Parallel()
	d := Document{Source: "f", Index: 1, Kind: podKind, Raw: []byte(`{"spec":{"containers":[],"containers":[]}}`)}
	if res := previewer(mutate.Job).Preview(d); res.Verdict != Unreadable || res.Err == nil {
		t.Errorf("verdict = %s, error %v", res.Verdict, res.Err)
	}
}

func TestPointerTo(t *testing.T) {
	t.Parallel()
	object := []byte(`{"spec":{"a/b":{"c.d":[{},{"x~y":{"template":{"spec":{"containers":[]}}}}]},"Ünï":{"spec":{"containers":[]}}}}`)
	templates, err := manifest.Templates(object)
	if err != nil {
		t.Fatal(err)
	}
	if len(templates) != 2 {
		t.Fatalf("%d templates", len(templates))
	}
	for _, tmpl := range templates {
		pointer, err := pointerTo(tmpl.Path)
		if err != nil {
			t.Fatal(err)
		}
		out, err := applyPatch(object, []mutate.Op{{Op: "add", Path: pointer + "/spec/containers/-", Value: json.RawMessage(`"here"`)}})
		if err != nil {
			t.Errorf("path %s, pointer %s: %v", tmpl.Path, pointer, err)
		} else if !strings.Contains(string(out), `["here"]`) {
			t.Errorf("pointer %s leads elsewhere: %s", pointer, out)
		}
	}
	if _, err := pointerTo("spec.very.deep..."); err == nil {
		t.Error("a path that was cut became a pointer")
	}
}

// FuzzPreview holds that no manifest makes preview panic, that patches only add, and that what would be admitted gets
// nothing more the second time.
func FuzzPreview(f *testing.F) {
	f.Add(podtest.Small(), true)
	f.Add([]byte(`{"apiVersion":"batch/v1","kind":"Job","spec":{"template":{"metadata":null,"spec":{"containers":[{"name":"a","env":null}]}}}}`), false)
	f.Add([]byte("apiVersion: x/v1\nkind: C\nspec: {parts: [{spec: {containers: [{name: a}]}}]}"), true)
	f.Fuzz(func(t *testing.T, data []byte, both bool) {
		roles := []mutate.Role{mutate.Job}
		if both {
			roles = append(roles, mutate.Publisher)
		}
		p := previewer(roles...)
		docs, _ := Read("f", data)
		for _, d := range docs {
			res := p.Preview(d)
			for _, op := range res.Patch {
				if op.Op != "add" {
					t.Errorf("operation %q", op.Op)
				}
			}
			if res.Verdict != Changed {
				continue
			}
			d.Raw = res.After
			if again := p.Preview(d); again.Verdict != Unchanged {
				t.Errorf("the second preview is %s with patch %v, error %v, violations %v", again.Verdict, again.Patch, again.Err, again.Violations)
			}
		}
	})
}
