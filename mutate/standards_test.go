package mutate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// TestPatchedPodsStayRestricted runs pods through the evaluator of the API server before and after they are patched: what
// met the restricted standard still does, also as seen by the API types, which read every field that was written.
func TestPatchedPodsStayRestricted(t *testing.T) {
	t.Parallel()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	context := podtest.Raw(`{"allowPrivilegeEscalation":false,"runAsNonRoot":true,"capabilities":{"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"}}`)
	safe := podtest.Field("securityContext", context)
	for name, edits := range map[string][]podtest.Edit{
		"a job":       {podtest.Owner("batch/v1", "Job"), podtest.Containers(podtest.Container("main", safe, podtest.EnvFrom("")))},
		"a sidecar":   {podtest.In("initContainers", podtest.Container("log", safe, podtest.Sidecar())), podtest.Containers(podtest.Container("main", safe))},
		"a publisher": {podtest.Label(wire.LabelRole, "publisher"), podtest.Containers(podtest.Container("main", safe))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := jobRequest(podtest.Pod(edits...).JSON())
			for _, entry := range []mutate.Entry{mutate.EntryJob, mutate.EntryPublisher} {
				req.Entry = entry
				d, err := mutate.Pod(req, testRules())
				if err != nil || !d.Outcome.Allows() {
					t.Fatal(d.Outcome, err)
				}
				patched := apply(t, req.Object, d.Patch)
				for when, object := range map[string][]byte{"before": req.Object, "after": patched} {
					var pod corev1.Pod
					if err := json.Unmarshal(object, &pod); err != nil {
						t.Fatal(err)
					}
					if r := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec)); !r.Allowed {
						t.Errorf("%s the patch the pod is not restricted: %s", when, r.ForbiddenDetail())
					}
				}
			}
		})
	}
}

// TestExistingVolumes says which spellings of our volume are ours.
func TestExistingVolumes(t *testing.T) {
	t.Parallel()
	const source = `{"serviceAccountToken":{"audience":"platform-connector.nvsentinel.nvidia.com","expirationSeconds":3600,"path":"token"}}`
	volume := func(projected string) string {
		return `{"name":"platform-connector-token","projected":` + projected + `}`
	}
	for name, tc := range map[string]struct {
		volume string
		want   bool
	}{
		"as written":                {volume(`{"sources":[` + source + `]}`), true},
		"with the default mode":     {volume(`{"defaultMode":420,"sources":[` + source + `]}`), true},
		"with nulls":                {volume(`{"defaultMode":null,"sources":[{"configMap":null,` + source[1:] + `]}`), true},
		"without the default life":  {volume(`{"sources":[{"serviceAccountToken":{"audience":"platform-connector.nvsentinel.nvidia.com","path":"token"}}]}`), true},
		"with another mode":         {volume(`{"defaultMode":256,"sources":[` + source + `]}`), false},
		"with a second source":      {volume(`{"sources":[` + source + `,{"downwardAPI":{}}]}`), false},
		"with the source twice":     {volume(`{"sources":[` + source + `,` + source + `]}`), false},
		"with two kinds of volume":  {`{"emptyDir":{},` + volume(`{"sources":[` + source + `]}`)[1:], false},
		"with a null other kind":    {`{"emptyDir":null,` + volume(`{"sources":[` + source + `]}`)[1:], true},
		"with an unknown field":     {volume(`{"future":0,"sources":[` + source + `]}`), false},
		"with an unknown token key": {volume(`{"sources":[{"serviceAccountToken":{"audience":"platform-connector.nvsentinel.nvidia.com","path":"token","future":""}}]}`), false},
		"with no source":            {volume(`{"sources":[]}`), false},
		"with no projection":        {volume(`null`), false},
		"with another case":         {volume(`{"Sources":[` + source + `]}`), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podtest.Pod(podtest.Label(wire.LabelRole, "publisher"), podtest.Volume(tc.volume),
				podtest.Containers(podtest.Container("main", podtest.Mount(wire.VolumePublisher, wire.DefaultPublisherMountPath, true))))
			req := jobRequest(pod.JSON())
			req.Entry = mutate.EntryPublisher
			d, err := mutate.Pod(req, testRules())
			if err != nil {
				t.Fatal(err)
			}
			if got := d.Outcome == mutate.Already; got != tc.want {
				t.Errorf("outcome %q, want ours: %v; %v", d.Outcome, tc.want, found(d))
			}
		})
	}
}

// TestAllowedMounts are paths near ours that do no harm.
func TestAllowedMounts(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/", "/var", "/var/run", "/run", "/var/run/secrets", "/run/secrets", "/var/run/secrets/nemo-platform-x", "/var/run/secrets/nemo-platform/workload2",
		"/var/run/secrets/nemo-platform/other", "/var/run/secrets/kubernetes.io/serviceaccount", "/var/run/secrets/nemo-platform/../x", "/srv/run/secrets/nemo-platform",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			d, err := mutate.Pod(jobRequest(podtest.Pod(mounting(path)...).JSON()), testRules())
			if err != nil || d.Outcome != mutate.Injected {
				t.Errorf("outcome %q, want injected: %v %v", d.Outcome, found(d), err)
			}
		})
	}
}

// TestAuditLoosensNamesAndPathsAlone goes through every refusal in mode audit.
func TestAuditLoosensNamesAndPathsAlone(t *testing.T) {
	t.Parallel()
	rules := testRules()
	rules.Mode = mutate.Audit
	for name, tc := range refusals() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := mutate.Pod(jobRequest(podtest.Pod(tc.pod...).JSON()), rules)
			if err != nil {
				t.Fatal(err)
			}
			want := mutate.Audited
			for _, v := range d.Violations {
				if !v.Reason.Loosened() {
					want = mutate.Denied
				}
			}
			if d.Outcome != want || len(d.Violations) == 0 || want == mutate.Audited && len(d.Warnings) == 0 {
				t.Errorf("outcome %q with %v and warnings %q, want %q", d.Outcome, found(d), d.Warnings, want)
			}
		})
	}
}

func TestAnObjectFullOfFaultsIsRefusedWithinBounds(t *testing.T) {
	t.Parallel()
	edits := make([]podtest.Edit, 0, 3000)
	for i := range cap(edits) {
		edits = append(edits, podtest.Env(fmt.Sprintf("NMP_WORKLOAD_%d", i), marker))
	}
	rules := testRules()
	rules.Mode = mutate.Audit
	d, err := mutate.Verify(jobRequest(podtest.Pod(podtest.Containers(podtest.Container("main", edits...))).JSON()), rules)
	if err != nil {
		t.Fatal(err)
	}
	if d.Outcome != mutate.Denied || len(d.Violations) != mutate.MaxViolations || d.More < 2500 {
		t.Errorf("outcome %q with %d violations and %d more", d.Outcome, len(d.Violations), d.More)
	}
	if len(d.Warnings) > mutate.MaxWarnings {
		t.Errorf("%d warnings", len(d.Warnings))
	}
}

// TestUnknownAndFutureFieldsComeBackWhole applies a patch and takes away what it added: the rest is the original.
func TestUnknownAndFutureFieldsComeBackWhole(t *testing.T) {
	t.Parallel()
	pod := podtest.Pod(
		podtest.Spec("futurePodField", podtest.Object{"deep": []any{1, "two", nil}}),
		podtest.In("initContainers", podtest.Container("log", podtest.Sidecar(), podtest.Field("restartPolicyRules", []any{podtest.Object{"action": "Restart"}}))),
		podtest.Containers(podtest.Container("main", podtest.Field("futureContainerField", true),
			podtest.EnvRaw(`{"name":"F","valueFrom":{"fileKeyRef":{"volumeName":"v","path":"p","key":"k","optional":false}}}`))),
	)
	req := jobRequest(pod.JSON())
	d, err := mutate.Pod(req, testRules())
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, op := range d.Patch {
		if op.Op != "add" {
			t.Errorf("operation %q at %s", op.Op, op.Path)
		}
		paths = append(paths, op.Path)
	}
	want := []string{
		"/spec/volumes", "/spec/initContainers/0/env", "/spec/initContainers/0/volumeMounts",
		"/spec/containers/0/env/-", "/spec/containers/0/env/-", "/spec/containers/0/env/-", "/spec/containers/0/volumeMounts",
		"/metadata/annotations", "/metadata/labels",
	}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("order of operations differs (-want +got):\n%s", diff)
	}
	patched := decoded(t, apply(t, req.Object, d.Patch)).(map[string]any)
	delete(patched["metadata"].(map[string]any), "annotations")
	delete(patched["metadata"].(map[string]any), "labels")
	spec := patched["spec"].(map[string]any)
	delete(spec, "volumes")
	sidecar := spec["initContainers"].([]any)[0].(map[string]any)
	delete(sidecar, "env")
	delete(sidecar, "volumeMounts")
	main := spec["containers"].([]any)[0].(map[string]any)
	main["env"] = main["env"].([]any)[:1]
	delete(main, "volumeMounts")
	if diff := cmp.Diff(decoded(t, req.Object), any(patched)); diff != "" {
		t.Errorf("the rest of the pod differs (-want +got):\n%s", diff)
	}
}

func TestMalformedRequestsAreErrors(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(mutate.Request) error{
		"no user to stamp": func(r mutate.Request) error {
			r.Username = ""
			_, err := mutate.Pod(r, testRules())
			return err
		},
		"a pod that is not one": func(r mutate.Request) error {
			r.Object = []byte(`{"spec":{"containers":[{"env":"` + marker + `"}]}}`)
			_, err := mutate.Pod(r, testRules())
			return err
		},
		"an old pod that is not one": func(r mutate.Request) error {
			r.Operation, r.OldObject = mutate.Update, []byte(`{"spec":7}`)
			_, err := mutate.Verify(r, testRules())
			return err
		},
		"an object that repeats a key": func(r mutate.Request) error {
			r.Object = []byte(`{"a":1,"a":2}`)
			_, err := mutate.Template(r, testRules())
			return err
		},
		"an update of a job without its old object": func(r mutate.Request) error {
			r.Operation, r.Kind = mutate.Update, mutate.GroupKind{Group: "batch", Kind: "Job"}
			_, err := mutate.Stamp(r, testRules())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := call(jobRequest(podtest.Pod().JSON()))
			if err == nil || strings.Contains(err.Error(), marker) {
				t.Errorf("got error %v, want one without values", err)
			}
		})
	}
}
