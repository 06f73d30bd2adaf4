//go:build unix

package integration

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// pair is a managed namespace with two editors.
type pair struct {
	namespace  string
	alice, bob shell
}

func newPair(t *testing.T) pair {
	t.Helper()
	namespace := managed(t)
	editor(t, "alice", namespace)
	editor(t, "bob", namespace)
	return pair{namespace, shellOf(t, "alice", namespace), shellOf(t, "bob", namespace)}
}

// stamped fails the test unless an object's stamp is this one.
func (p pair) stamped(t *testing.T, object, want string) {
	t.Helper()
	const path = `jsonpath={.metadata.annotations.lanyard\.dev/created-by}`
	if got := p.alice.must(t, "", "get", object, "-o", path); got != want {
		t.Errorf("%s is stamped %q, want %q", object, got, want)
	}
}

// manifest is a job in YAML, without what only an API server writes.
func manifest(t *testing.T, name string, edits ...edit) string {
	t.Helper()
	job := newJob(name, edits...)
	job.TypeMeta = metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}
	job.Spec.Suspend = new(true)
	text, err := yaml.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestExportedJobComesBack applies and replaces what `kubectl get -o yaml` prints of a stamped job, as its creator and as
// somebody else. The stamp stays the creator's.
func TestExportedJobComesBack(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.alice.must(t, manifest(t, "train"), "apply", "-f", "-")
	for i, sh := range []shell{p.alice, p.bob} {
		for j, verb := range []string{"apply", "replace"} {
			exported := p.alice.must(t, "", "get", "job/train", "-o", "yaml")
			was, is := fmt.Sprintf("parallelism: %d\n", 2*i+j+1), fmt.Sprintf("parallelism: %d\n", 2*i+j+2)
			sh.must(t, strings.Replace(exported, was, is, 1), verb, "-f", "-")
			p.stamped(t, "job/train", "alice")
		}
	}
	if got := p.alice.must(t, "", "get", "job/train", "-o", "jsonpath={.spec.parallelism}"); got != "5" {
		t.Errorf("parallelism is %s after four edits, want 5", got)
	}
	exported := p.alice.must(t, "", "get", "job/train", "-o", "yaml")
	p.bob.must(t, strings.Replace(exported, wire.AnnotationCreatedBy+": alice", wire.AnnotationCreatedBy+": bob", 1), "replace", "-f", "-")
	p.stamped(t, "job/train", "alice")
}

// TestManifestWithoutStampComesBack applies and replaces a manifest that never had a stamp, and forces a replacement.
func TestManifestWithoutStampComesBack(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	text := cronJob(t, "nightly")
	p.alice.must(t, text, "create", "-f", "-")
	p.bob.must(t, text, "replace", "-f", "-")
	p.stamped(t, "cronjob/nightly", "alice")
	p.bob.must(t, text, "apply", "-f", "-")
	p.stamped(t, "cronjob/nightly", "alice")
	p.bob.must(t, text, "apply", "--server-side", "--force-conflicts", "-f", "-")
	p.stamped(t, "cronjob/nightly", "alice")

	p.bob.must(t, "", "create", "job", "by-hand", "--from=cronjob/nightly")
	p.stamped(t, "job/by-hand", "bob")

	p.bob.must(t, text, "replace", "--force", "-f", "-")
	p.stamped(t, "cronjob/nightly", "bob")
}

// TestServerSideApply lets two people own fields of one job; the stamp is nobody's field.
func TestServerSideApply(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	text := manifest(t, "train")
	p.alice.must(t, text, "apply", "--server-side", "-f", "-")
	p.stamped(t, "job/train", "alice")
	owned := strings.Replace(text, "metadata:\n", "metadata:\n  annotations:\n    lanyard.dev/created-by: bob\n", 1)
	p.bob.must(t, owned, "apply", "--server-side", "--field-manager=bob", "--force-conflicts", "-f", "-")
	p.stamped(t, "job/train", "alice")
	p.bob.must(t, text, "apply", "--server-side", "--field-manager=bob", "--force-conflicts", "-f", "-")
	p.stamped(t, "job/train", "alice")
}

// TestKubectlPrintsWarnings shows what somebody sees of a manifest that is accepted with reservations, and of one that is
// refused.
func TestKubectlPrintsWarnings(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	done := p.alice.run(t, manifest(t, "warned", setting(wire.EnvBaseURL, "https://elsewhere.example")), "apply", "-f", "-")
	if done.code != 0 {
		t.Errorf("kubectl ends with %d: %s", done.code, done.complaint)
	}
	said(t, done.complaint, "Warning: spec.template.spec.containers[0].env[0].name may send the platform's token elsewhere; remove it")
	p.alice.refused(t, manifest(t, "refused", setting(wire.EnvPrincipal, "root")), []string{"apply", "-f", "-"},
		"Error from server (Forbidden)", "spec.template.spec.containers[0].env[0].name", "remove it", "docs/admission.md")
}

// cronJob is a manifest of one that is not due for a long time.
func cronJob(t *testing.T, name string) string {
	t.Helper()
	return "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: " + name + "}\nspec:\n  schedule: 0 0 1 1 *\n  jobTemplate:\n    spec:\n      template:\n" +
		"        spec: {restartPolicy: Never, containers: [{name: main, image: 'registry.example/main:1'}]}\n"
}
