package manifest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lanyard-k8s/lanyard/mutate/manifest"
)

func TestDecodeReadsWhatRulesLookAt(t *testing.T) {
	t.Parallel()
	got, err := manifest.Decode([]byte(`{
	  "apiVersion": "v1", "kind": "Pod", "future": {"a": [1, {"b": null}]},
	  "metadata": {
	    "name": "p", "generateName": "p-",
	    "labels": {"app": "x", "lanyard.dev/role": "none"},
	    "annotations": {"kubernetes.io/config.mirror": "", "other": "y"},
	    "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": true, "blockOwnerDeletion": true}]
	  },
	  "spec": {
	    "serviceAccountName": "s", "os": {"name": "linux"}, "nodeSelector": {"kubernetes.io/os": "linux"},
	    "affinity": {"nodeAffinity": {}}, "terminationGracePeriodSeconds": 30, "futurePodField": true,
	    "volumes": [{"name": "v", "projected": {"sources": [{"configMap": {}}, {"serviceAccountToken": {"audience": "a"}}]}}],
	    "initContainers": [{"name": "i", "restartPolicy": "Always", "restartPolicyRules": []}],
	    "containers": [{
	      "name": "c",
	      "env": [{"name": "\u0041", "value": "v"}, {"name": "B", "valueFrom": {"future": {}}}],
	      "envFrom": [{"prefix": "P_", "secretRef": {"name": "x"}}, {}],
	      "volumeMounts": [{"name": "v", "mountPath": "/m", "readOnly": true, "subPath": "s", "subPathExpr": "e", "mountPropagation": "None", "recursiveReadOnly": "Disabled", "future": 1}],
	      "volumeDevices": [{"name": "d", "devicePath": "/dev/x"}]
	    }],
	    "ephemeralContainers": [{"name": "e"}]
	  }}`))
	if err != nil {
		t.Fatal(err)
	}
	want := manifest.Pod{
		Meta: manifest.Meta{
			Shape: manifest.Filled, Name: "p", GenerateName: "p-",
			Labels:      manifest.Pairs{Shape: manifest.Filled, List: []manifest.Pair{{Key: "lanyard.dev/role", Value: "none"}}},
			Annotations: manifest.Pairs{Shape: manifest.Filled, List: []manifest.Pair{{Key: "kubernetes.io/config.mirror"}}},
			Owners:      []manifest.Owner{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "u", Controller: true}},
		},
		Spec: manifest.Spec{
			Shape: manifest.Filled, ServiceAccountName: "s", OS: "linux", NodeOS: "linux", HasNodeSelector: true, HasAffinity: true,
			GracePeriodSeconds: 30, VolumesShape: manifest.Filled,
			Volumes: []manifest.Volume{{
				Name:      "v",
				Raw:       `{"name": "v", "projected": {"sources": [{"configMap": {}}, {"serviceAccountToken": {"audience": "a"}}]}}`,
				Audiences: []manifest.Audience{{Source: 1, Name: "a"}},
			}},
			InitContainers: []manifest.Container{{Name: "i", Always: true}},
			Containers: []manifest.Container{{
				Name: "c", EnvShape: manifest.Filled, MountsShape: manifest.Filled,
				Env:     []manifest.Env{{Name: "A"}, {Name: "B"}},
				EnvFrom: []manifest.EnvFrom{{Prefix: "P_"}, {}},
				Mounts: []manifest.Mount{{
					Name: "v", MountPath: "/m", ReadOnly: true, SubPath: "s", SubPathExpr: "e", Propagation: "None", RecursiveReadOnly: "Disabled", Other: true,
				}},
				Devices: []manifest.Device{{Name: "d", DevicePath: "/dev/x"}},
			}},
			EphemeralContainers: []manifest.Container{{Name: "e"}},
		},
	}
	hidden := cmp.Options{cmpopts.IgnoreUnexported(manifest.Env{}, manifest.Spec{})}
	if diff := cmp.Diff(want, got, hidden); diff != "" {
		t.Errorf("pod differs (-want +got):\n%s", diff)
	}
	if e := got.Spec.Containers[0].Env; !e[0].Literal("v") || e[0].Empty() || e[1].Literal("") || e[1].Empty() {
		t.Error("values compare wrongly")
	}
}

func TestDecodeTakesNullForAbsent(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"metadata and spec": `{"metadata": null, "spec": null}`,
		"every part": `{"metadata": {"name": null, "labels": null, "annotations": {"lanyard.dev/x": null}, "ownerReferences": null},
			"spec": {"containers": [{"name": "c", "env": null, "envFrom": null, "volumeMounts": null, "restartPolicy": null, "securityContext": null}],
			"initContainers": null, "ephemeralContainers": null, "volumes": [{"name": "v", "projected": null}], "os": null, "nodeSelector": null,
			"affinity": null, "terminationGracePeriodSeconds": null, "serviceAccountName": null, "securityContext": null}}`,
		"below a projected volume": `{"spec": {"volumes": [{"projected": {"sources": [{"serviceAccountToken": null}, {"serviceAccountToken": {"audience": null}}]}}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := manifest.Decode([]byte(text)); err != nil {
				t.Errorf("null was refused: %v", err)
			}
		})
	}
}

func TestDecodeNamesTheMalformedPlace(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text     string
		wantPath string
		want     string
	}{
		"nothing at all":               {"", "", "not valid JSON"},
		"no object":                    {"[]", "", "want an object"},
		"null":                         {"null", "", "want an object"},
		"something after the object":   {"{} {}", "", "something follows"},
		"cut off":                      {`{"spec": {"containers": [`, "spec.containers", "not valid JSON"},
		"a bad separator":              {`{"spec": {"containers": [} }`, "spec.containers[0]", "not valid JSON"},
		"metadata is a list":           {`{"metadata": []}`, "metadata", "want an object"},
		"a label is a number":          {`{"metadata": {"labels": {"lanyard.dev/role": 1}}}`, "metadata.labels[lanyard.dev/role]", "want a string"},
		"a foreign label is a list":    {`{"metadata": {"labels": {"app": []}}}`, "metadata.labels.app", "want a string"},
		"owners are an object":         {`{"metadata": {"ownerReferences": {}}}`, "metadata.ownerReferences", "want a list"},
		"controller is a string":       {`{"metadata": {"ownerReferences": [{"controller": "true"}]}}`, "metadata.ownerReferences[0].controller", "want true or false"},
		"containers is an object":      {`{"spec": {"containers": {}}}`, "spec.containers", "want a list"},
		"a container is null":          {`{"spec": {"containers": [null]}}`, "spec.containers[0]", "want an object"},
		"env is an object":             {`{"spec": {"initContainers": [{}, {"env": {}}]}}`, "spec.initContainers[1].env", "want a list"},
		"a value is a number":          {`{"spec": {"containers": [{"env": [{"name": "A", "value": 1}]}]}}`, "spec.containers[0].env[0].value", "want a string"},
		"a name is a boolean":          {`{"spec": {"containers": [{"env": [{"name": true}]}]}}`, "spec.containers[0].env[0].name", "want a string"},
		"a prefix is a list":           {`{"spec": {"ephemeralContainers": [{"envFrom": [{"prefix": []}]}]}}`, "spec.ephemeralContainers[0].envFrom[0].prefix", "want a string"},
		"readOnly is a string":         {`{"spec": {"containers": [{"volumeMounts": [{"readOnly": "true"}]}]}}`, "spec.containers[0].volumeMounts[0].readOnly", "want true or false"},
		"an audience is a list":        {`{"spec": {"volumes": [{"projected": {"sources": [{"serviceAccountToken": {"audience": ["x"]}}]}}]}}`, "spec.volumes[0].projected.sources[0].serviceAccountToken.audience", "want a string"},
		"a grace period is a fraction": {`{"spec": {"terminationGracePeriodSeconds": 1.5}}`, "spec.terminationGracePeriodSeconds", "want a whole number"},
		"a key stands twice":           {`{"spec": {"containers": [{"env": [], "env": []}]}}`, "spec.containers[0].env", "a key stands twice"},
		"an escaped key stands twice":  {`{"spec": {}, "sp\u0065c": {}}`, "spec", "a key stands twice"},
		"a skipped key stands twice":   {`{"status": {"a": {"x": 1, "x": 2}}}`, "status.a.x", "a key stands twice"},
		"bytes that are not UTF-8":     {"{\"spec\": {\"containers\": [{\"name\": \"\xff\"}]}}", "spec.containers[0].name", "not valid JSON"},
		"a key of 4 MiB":               {`{"metadata": {"annotations": {"` + strings.Repeat("k", 4<<20) + `": ""}}}`, "", "want shorter keys: at most 3145728 bytes in all"},
		"many keys of 1 KiB, skipped":  {`{"status": {` + numbered(4<<10, strings.Repeat("k", 1<<10)) + `}}`, "", "want shorter keys"},
		"a long path":                  {`{"metadata": {"labels": {"` + strings.Repeat("k", 2<<20) + `": 1}}}`, "metadata.labels." + strings.Repeat("k", 240) + "...", "want a string"},
		"a thousand and one":           {`{"spec": {"containers": [` + strings.Repeat("{},", 1000) + `{}]}}`, "spec.containers[999]", "at most 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := manifest.Decode([]byte(tc.text))
			var malformed *manifest.Error
			if !errors.As(err, &malformed) {
				t.Fatalf("got error %v, want a *manifest.Error", err)
			}
			if malformed.Path != tc.wantPath || !strings.Contains(malformed.Problem, tc.want) {
				t.Errorf("got %q at %q, want %q at %q", malformed.Problem, malformed.Path, tc.want, tc.wantPath)
			}
		})
	}
}

// numbered are the members of an object with so many keys.
func numbered(n int, key string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"%s%d": 0, `, key, i)
	}
	return strings.TrimSuffix(b.String(), ", ")
}

// TestKeysOfAWholeObjectAreNotTooLong: the API server takes 3 MiB of an object, so the keys of one that it has taken are never too long.
func TestKeysOfAWholeObjectAreNotTooLong(t *testing.T) {
	t.Parallel()
	text := `{"status": {` + numbered(2900, strings.Repeat("k", 1<<10)) + `}}`
	if len(text) < 2_900_000 {
		t.Fatalf("the object has %d bytes, want nearly 3 MiB", len(text))
	}
	if _, err := manifest.Decode([]byte(text)); err != nil {
		t.Error(err)
	}
}

func TestCaseVariantKeysAreOtherKeys(t *testing.T) {
	t.Parallel()
	p, err := manifest.Decode([]byte(`{"spec": {"containers": [{"name": "c", "env": [{"name": "NMP_PRINCIPAL"}], "Env": [{"name": "SAFE"}]}], "Containers": []}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Spec.Containers[0].Env; len(got) != 1 || got[0].Name != "NMP_PRINCIPAL" {
		t.Errorf("the check was shown %d variables, want NMP_PRINCIPAL alone", len(got))
	}
}
