//go:build unix

package redteam

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// The words of attacks, written out here once more: a test that took them from the code would not notice a changed one.
const (
	publisherAudience = "platform-connector.nvsentinel.nvidia.com"
	jobAudience       = "nemo-platform"
	publisherVolume   = "platform-connector-token"
	jobVolume         = "nmp-workload-identity"
	publisherPath     = "/var/run/secrets/nvsentinel/platform-connector"
	jobPath           = "/var/run/secrets/nemo-platform/workload"
	stampKey          = "lanyard.dev/created-by"
	roleKey           = "lanyard.dev/role"
)

// pod is a pod of one container "main" without the service account's own token.
func pod(edits ...podtest.Edit) object {
	p := podtest.Pod(append([]podtest.Edit{
		podtest.Spec("serviceAccountName", "default"), podtest.Spec("automountServiceAccountToken", false),
		podtest.Spec("restartPolicy", "Never"),
	}, edits...)...)
	delete(p.At("metadata"), "namespace")
	return p
}

// job is a Job whose template is the pod.
func job(edits ...podtest.Edit) object {
	p := pod(edits...)
	delete(p.At("metadata"), "generateName")
	return object{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": object{"generateName": "job-"},
		"spec": object{"template": object{"metadata": p["metadata"], "spec": p["spec"]}},
	}
}

// deployment is a Deployment of no replicas whose template is the pod.
func deployment(edits ...podtest.Edit) object {
	p := pod(append(edits, podtest.Label("app", "red-app"), podtest.Spec("restartPolicy", "Always"))...)
	delete(p.At("metadata"), "generateName")
	return object{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"generateName": "app-"},
		"spec": object{
			"replicas": 0, "selector": object{"matchLabels": object{"app": "red-app"}},
			"template": object{"metadata": p["metadata"], "spec": p["spec"]},
		},
	}
}

// main makes the pod's one container from edits.
func mainWith(edits ...podtest.Edit) podtest.Edit {
	return podtest.Containers(podtest.Container("main", edits...))
}

// tokenSource is one source of a projected volume.
func tokenSource(audience string) string {
	return fmt.Sprintf(`{"serviceAccountToken":{"audience":%q,"expirationSeconds":3600,"path":"token"}}`, audience)
}

// projecting adds a projected volume with these sources.
func projecting(name string, sources ...string) podtest.Edit {
	return podtest.Volume(fmt.Sprintf(`{"name":%q,"projected":{"sources":[%s]}}`, name, strings.Join(sources, ",")))
}

func account(name string) podtest.Edit { return podtest.Spec("serviceAccountName", name) }

func asPublisher() podtest.Edit { return podtest.Label(roleKey, "publisher") }

// ownVolume is the job's volume as Lanyard writes it.
func ownVolume() podtest.Edit {
	return podtest.Volume(`{"name":"nmp-workload-identity","projected":{"sources":[{"serviceAccountToken":{"audience":"nemo-platform","expirationSeconds":600,"path":"token"}}]}}`)
}

// holders names the containers of a stored pod that mount a volume.
func holders(o object, volume string) []string {
	names := []string{}
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		cs, _ := value(o, "spec", list).([]any)
		for _, c := range cs {
			mounts, _ := value(c, "volumeMounts").([]any)
			if slices.ContainsFunc(mounts, func(m any) bool { return text(m, "name") == volume }) {
				names = append(names, text(c, "name"))
			}
		}
	}
	return names
}

// env reads a variable of a stored pod's container by its index.
func env(o object, container int, name string) (string, bool) {
	list, _ := value(o, "spec", "containers", container, "env").([]any)
	for _, e := range list {
		if text(e, "name") == name {
			return text(e, "value"), true
		}
	}
	return "", false
}

// refusal is a layer that may refuse, and the reason that it gives.
type refusal struct{ layer, reason string }

// refusedByOne is for what several policies refuse: the API server tells the answer of whichever it comes to first.
func (a answer) refusedByOne(t *testing.T, any ...refusal) {
	t.Helper()
	for _, r := range any {
		if _, name, _ := strings.Cut(r.layer, " "); strings.Contains(a.message, "ValidatingAdmissionPolicy '"+name+"' ") {
			a.refused(t, r.layer, r.reason)
			return
		}
	}
	t.Errorf("answered with %d (%s), want a refusal by one of %v", a.code, a.message, any)
}

// refused fails the test unless a layer, "policy NAME" or "webhook NAME", has forbidden the request for a reason: of the
// webhook's one as it stands in the audit log, of a policy words of its message. More words must be in the message.
func (a answer) refused(t *testing.T, layer, reason string, words ...string) {
	t.Helper()
	if a.code != 403 {
		t.Errorf("answered with %d (%s), want 403 by %s", a.code, a.message, layer)
		return
	}
	kind, name, _ := strings.Cut(layer, " ")
	switch kind {
	case "policy":
		words = append(words, "ValidatingAdmissionPolicy '"+name+"' with binding '"+name+"' denied request", reason)
	case "webhook":
		words = append(words, "admission webhook "+strconv.Quote(name)+" denied the request")
		if got := a.annotations(t)[name+"/reasons"]; !slices.Contains(strings.Split(got, ","), reason) {
			t.Errorf("the audit log gives the reasons %q, want %q: %s", got, reason, a.message)
		}
	default:
		words = append(words, layer, reason)
	}
	for _, w := range words {
		if !strings.Contains(a.message, w) {
			t.Errorf("the answer lacks %q: %s", w, a.message)
		}
	}
}

// accepted fails the test unless the request went through, and returns what is stored.
func (a answer) accepted(t *testing.T) object {
	t.Helper()
	if a.code/100 != 2 {
		t.Fatalf("refused with %d, and should not be: %s", a.code, a.message)
	}
	return a.stored(t)
}

// warned fails the test unless a warning holds the words.
func (a answer) warned(t *testing.T, words string) {
	t.Helper()
	if !slices.ContainsFunc(a.warnings, func(w string) bool { return strings.Contains(w, words) }) {
		t.Errorf("the warnings are %q, want one with %q", a.warnings, words)
	}
}

// silent fails the test if something is repeated in the answer that must not be.
func (a answer) silent(t *testing.T, secret string) {
	t.Helper()
	if strings.Contains(a.message, secret) || strings.Contains(strings.Join(a.warnings, "\n"), secret) {
		t.Errorf("the answer repeats %q", secret)
	}
}

// decoded reads JSON.
func decoded(t *testing.T, raw string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		t.Fatal(err)
	}
	return v
}
