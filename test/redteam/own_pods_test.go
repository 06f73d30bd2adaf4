//go:build unix

package redteam

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// TestOwnAudienceLookAlikes asks for audiences that resemble ours, or for the API server's own, and has the API server
// review the tokens: none is good for ours.
func TestOwnAudienceLookAlikes(t *testing.T) {
	t.Parallel()
	w := redteam(t)
	mallory := w.as(attacker)
	for _, audience := range []string{"", "NEMO-PLATFORM", "nemo-platform ", " nemo-platform", "nemo-platform/", "nemo-platform,vault", "nemo\u2010platform", "nemo-platform\u200b", "https://kubernetes.default.svc.cluster.local"} {
		edit := projecting("own", fmt.Sprintf(`{"serviceAccountToken":{"audience":%q,"path":"t"}}`, audience))
		mallory.pod(t, plain, edit).accepted(t)
		mallory.pod(t, managed, edit).accepted(t)
		spec := object{}
		if audience != "" {
			spec["audiences"] = []string{audience}
		}
		made := mallory.do(t.Context(), http.MethodPost, at(plain, "serviceaccounts")+"/default/token", object{"spec": spec}).accepted(t)
		for _, ours := range []string{jobAudience, publisherAudience} {
			if w.authenticates(t, text(made, "status", "token"), ours) {
				t.Errorf("a token for %q is good for %s", audience, ours)
			}
		}
	}
}

// TestOwnContainerLists writes lists of containers that contradict each other, the pod or sense.
func TestOwnContainerLists(t *testing.T) {
	t.Parallel()
	mallory := redteam(t).as(attacker)
	two := podtest.Containers(podtest.Container("main"), podtest.Container("other"))
	setup := podtest.In("initContainers", podtest.Container("setup"))
	side := podtest.In("initContainers", podtest.Container("side", podtest.Sidecar()))
	list := func(v string) podtest.Edit { return podtest.Annotation("lanyard.dev/containers", v) }
	record := func(v string) podtest.Edit { return podtest.Annotation("lanyard.dev/job-containers", v) }
	for name, tc := range map[string]struct {
		edits  []podtest.Edit
		want   []string
		reason string
	}{
		"one of two":                {edits: []podtest.Edit{two, list("other")}, want: []string{"other"}},
		"an init container":         {edits: []podtest.Edit{two, setup, list("setup")}, want: []string{"setup"}},
		"spaces and twice":          {edits: []podtest.Edit{two, list(" main , main ")}, want: []string{"main"}},
		"sidecars come by default":  {edits: []podtest.Edit{two, side, setup}, want: []string{"side", "main", "other"}},
		"a record that is empty":    {edits: []podtest.Edit{two, record("")}, want: []string{}},
		"both say the same":         {edits: []podtest.Edit{two, list("main,other"), record("other,main")}, want: []string{"main", "other"}},
		"they differ":               {edits: []podtest.Edit{two, list("main"), record("other")}, reason: "metadata_invalid"},
		"nothing":                   {edits: []podtest.Edit{two, list("")}, reason: "metadata_invalid"},
		"commas":                    {edits: []podtest.Edit{two, list(",,")}, reason: "metadata_invalid"},
		"unknown":                   {edits: []podtest.Edit{two, list("main,evil")}, reason: "metadata_invalid"},
		"unknown in the record":     {edits: []podtest.Edit{two, record("evil")}, reason: "metadata_invalid"},
		"another case":              {edits: []podtest.Edit{two, list("Main")}, reason: "metadata_invalid"},
		"a star":                    {edits: []podtest.Edit{two, list("*")}, reason: "metadata_invalid"},
		"a hundred thousand names":  {edits: []podtest.Edit{two, list(strings.Repeat("a,", 100000) + "main")}, reason: "metadata_invalid"},
		"a debug container's name":  {edits: []podtest.Edit{two, list("debugger")}, reason: "metadata_invalid"},
		"a line break in a name":    {edits: []podtest.Edit{two, list("main\n,other")}, want: []string{"main", "other"}},
		"a name with a zero width ": {edits: []podtest.Edit{two, list("main\u200b")}, reason: "metadata_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := mallory.pod(t, managed, tc.edits...)
			if tc.reason != "" {
				a.refused(t, byJob, tc.reason, "metadata.annotations[lanyard.dev/")
				if len(a.message) > 16<<10 {
					t.Errorf("the answer has %d bytes", len(a.message))
				}
				return
			}
			if got := holders(a.accepted(t), jobVolume); !slices.Equal(got, tc.want) {
				t.Errorf("the containers with the token are %q, want %q", got, tc.want)
			}
		})
	}
	// A name twice, in one list or in two, is the API server's to refuse.
	for _, edit := range []podtest.Edit{podtest.In("initContainers", podtest.Container("main")), podtest.Containers(podtest.Container("main"))} {
		if a := mallory.pod(t, managed, edit, mainWith()); a.code != http.StatusUnprocessableEntity {
			t.Errorf("a container's name twice is answered with %d: %s", a.code, a.message)
		}
	}
}

// TestOwnListAfterwards changes the list once the pod is stored, which nothing forbids and nothing heeds.
func TestOwnListAfterwards(t *testing.T) {
	t.Parallel()
	w := redteam(t)
	made := w.as(attacker).pod(t, managed)
	path := at(managed, "pods") + "/" + made.name(t)
	// A real owner, or the garbage collector would take the pod away.
	owner := w.as(attacker).create(t, managed, "configmaps", object{"metadata": object{"generateName": "owner-"}}).accepted(t)
	steal := podtest.Container("debugger", podtest.Mount(jobVolume, jobPath, true))
	for _, meta := range []object{
		{"annotations": object{"lanyard.dev/job-containers": "main,debugger", "lanyard.dev/containers": "debugger"}},
		{"annotations": object{"lanyard.dev/job-containers": nil, "lanyard.dev/containers": nil}},
		{"labels": object{roleKey: "none"}},
		{"labels": object{roleKey: "publisher"}},
		{"ownerReferences": []any{object{"apiVersion": "v1", "kind": "ConfigMap", "name": text(owner, "metadata", "name"), "uid": text(owner, "metadata", "uid"), "controller": true}}},
	} {
		w.as(attacker).do(t.Context(), http.MethodPatch, path, object{"metadata": meta}).accepted(t)
		w.root().debug(t, managed, made.name(t), steal).refused(t, byJobCheck, "mount_conflict", "a debug container may not mount")
		w.root().debug(t, managed, made.name(t), podtest.Container("debugger", podtest.Env("NMP_PRINCIPAL", "x"))).refused(t, byNames, "env[NMP_PRINCIPAL]")
	}
	// The publisher's label gone, the pod is still known for one.
	pub := w.as(attacker).pod(t, both, asPublisher())
	path = at(both, "pods") + "/" + pub.name(t)
	w.as(attacker).do(t.Context(), http.MethodPatch, path, object{"metadata": object{"labels": object{roleKey: nil}}}).accepted(t)
	w.root().debug(t, both, pub.name(t), podtest.Container("debugger", podtest.Mount(publisherVolume, "/x", true))).refused(t, byPubCheck, "mount_conflict")
	w.root().debug(t, both, pub.name(t), steal).refused(t, byJobCheck, "mount_conflict")
}

// TestOwnOtherWaysToTheTokensPath brings files to the token's path by volumes that are not usually thought of.
func TestOwnOtherWaysToTheTokensPath(t *testing.T) {
	t.Parallel()
	mallory := redteam(t).as(attacker)
	for name, edits := range map[string][]podtest.Edit{
		"a block device": {podtest.Volume(`{"name":"d","persistentVolumeClaim":{"claimName":"c"}}`),
			mainWith(podtest.Field("volumeDevices", []any{object{"name": "d", "devicePath": jobPath + "/token"}}))},
		"a block device at the parent": {podtest.Volume(`{"name":"d","persistentVolumeClaim":{"claimName":"c"}}`),
			mainWith(podtest.Field("volumeDevices", []any{object{"name": "d", "devicePath": "/run/secrets/nemo-platform"}}))},
		"an image": {podtest.Volume(`{"name":"i","image":{"reference":"x:1"}}`), mainWith(podtest.Mount("i", jobPath, true))},
		"one file by subPath": {podtest.Volume(`{"name":"s","secret":{"secretName":"x"}}`),
			mainWith(podtest.MountRaw(`{"name":"s","mountPath":"/var/run/secrets/nemo-platform/workload/token","subPath":"token"}`))},
		"one file by subPathExpr": {podtest.Volume(`{"name":"s","emptyDir":{}}`),
			mainWith(podtest.Env("T", "token"), podtest.MountRaw(`{"name":"s","mountPath":"/var/run/secrets/nemo-platform/workload/token","subPathExpr":"$(T)"}`))},
		"an inline driver": {podtest.Volume(`{"name":"c","csi":{"driver":"x.example.com"}}`), mainWith(podtest.Mount("c", "/run/secrets/nemo-platform/workload", true))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mallory.pod(t, managed, edits...).refused(t, byJob, "path_conflict", "spec.containers[0].volume")
		})
	}
}

// TestOwnDeprecatedField gives the account by its old name, or by both with a contradiction.
func TestOwnDeprecatedField(t *testing.T) {
	t.Parallel()
	mallory := redteam(t).as(attacker)
	for name, tc := range map[string]struct {
		spec object
		want []string
	}{
		"the old name alone":         {object{"serviceAccount": "monitor"}, []string{"main"}},
		"both, the new one a thief":  {object{"serviceAccount": "monitor", "serviceAccountName": "default"}, []string{}},
		"both, the old one harmless": {object{"serviceAccount": "default", "serviceAccountName": "monitor"}, []string{"main"}},
	} {
		p := pod()
		delete(p.At("spec"), "serviceAccountName")
		for k, v := range tc.spec {
			p.At("spec")[k] = v
		}
		stored := mallory.create(t, listed, "pods", p).accepted(t)
		if got := holders(stored, publisherVolume); !slices.Equal(got, tc.want) {
			t.Errorf("%s: the containers with the token are %q, want %q", name, got, tc.want)
		}
		if text(stored, "spec", "serviceAccount") != text(stored, "spec", "serviceAccountName") {
			t.Errorf("%s: the stored pod has two accounts: %v", name, value(stored, "spec"))
		}
	}
}

// TestOwnInjectedLabel writes the label that only the platform writes.
func TestOwnInjectedLabel(t *testing.T) {
	t.Parallel()
	mallory := redteam(t).as(attacker)
	const key = "lanyard.dev/injected"
	for _, v := range []string{"publisher", "job", "publisher.job", "x", ""} {
		mallory.pod(t, plain, podtest.Label(key, v)).refused(t, byInjected, "written by the platform")
	}
	mallory.pod(t, publishing, podtest.Label(key, "publisher")).refused(t, byInjected, "written by the platform")
	mallory.pod(t, managed, podtest.Label(key, "publisher")).refused(t, "denied", "", key)
	mallory.pod(t, managed, podtest.Label(key, "job"), podtest.Label(roleKey, "none")).refused(t, byJob, "metadata_invalid")
	fake := podtest.Volume(`{"name":"platform-connector-token","projected":{"sources":[{"serviceAccountToken":{"audience":"vault","path":"token"}}]}}`)
	mallory.pod(t, plain, podtest.Label(key, "publisher"), fake).refused(t, byInjected, "written by the platform")
	stored := mallory.pod(t, managed, podtest.Label(key, "job")).accepted(t)
	if got := holders(stored, jobVolume); !slices.Equal(got, []string{"main"}) {
		t.Errorf("a pod that says it is injected holds the token in %q", got)
	}
}

// TestOwnLongNames uses the longest names there may be, and names that the API server refuses before anybody is asked.
func TestOwnLongNames(t *testing.T) {
	t.Parallel()
	mallory := redteam(t).as(attacker)
	long := strings.Repeat("a", 63)
	name := func(generate bool, n string) podtest.Edit {
		return func(p object) {
			delete(p.At("metadata"), "generateName")
			p.At("metadata")[map[bool]string{true: "generateName", false: "name"}[generate]] = n
		}
	}
	stored := mallory.pod(t, managed, name(true, strings.Repeat("a.", 126)+"b"), podtest.Containers(podtest.Container(long))).accepted(t)
	if got := holders(stored, jobVolume); !slices.Equal(got, []string{long}) {
		t.Errorf("the containers with the token are %q", got)
	}
	for what, edit := range map[string]podtest.Edit{
		"a pod's name in another script":   name(false, "назва"),
		"a pod's name of 300 letters":      name(false, strings.Repeat("a", 300)),
		"an account in another script":     account("mönitor"),
		"an account with a line break":     account("monitor\n"),
		"a container in another script":    podtest.Containers(podtest.Container("maın")),
		"a volume of ours with full stops": podtest.Volume(`{"name":"nmp.workload.identity","emptyDir":{}}`),
	} {
		if a := mallory.pod(t, managed, edit); a.code != http.StatusUnprocessableEntity && a.code != http.StatusForbidden {
			t.Errorf("%s is answered with %d: %s", what, a.code, a.message)
		}
	}
	if a := mallory.create(t, "ｒed-managed", "pods", pod()); a.code/100 == 2 {
		t.Error("a namespace in full width is one")
	}
}
