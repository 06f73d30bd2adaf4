package mutate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// job wraps containers, given as JSON, into a Job with a spec member of its own.
func job(suspend, containers string) []byte {
	return []byte(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j"},"spec":{"suspend":` + suspend +
		`,"template":{"spec":{"containers":[` + containers + `]}}}}`)
}

// TestTemplateUpdatesAreHeldToWhatTheyAdd changes a job that was bad before the rules came.
func TestTemplateUpdatesAreHeldToWhatTheyAdd(t *testing.T) {
	t.Parallel()
	const (
		bad   = `{"name":"a","env":[{"name":"NMP_PRINCIPAL","value":"x"}],"volumeMounts":[{"name":"v","mountPath":"/run/secrets/nemo-platform"}]}`
		good  = `{"name":"b"}`
		moved = `{"name":"a","env":[{"name":"A"},{"name":"NMP_PRINCIPAL","value":"y"}],"volumeMounts":[{"name":"w","mountPath":"/w"},{"name":"v","mountPath":"/run/secrets/nemo-platform"}]}`
		more  = `{"name":"a","env":[{"name":"NMP_PRINCIPAL","value":"x"},{"name":"NMP_ACCESS_TOKEN","value":"x"}],"volumeMounts":[{"name":"v","mountPath":"/run/secrets/nemo-platform"}]}`
		twice = `{"name":"a","env":[{"name":"NMP_PRINCIPAL","value":"x"},{"name":"NMP_PRINCIPAL","value":"x"}],"volumeMounts":[{"name":"v","mountPath":"/run/secrets/nemo-platform"}]}`
	)
	for name, tc := range map[string]struct {
		old, object []byte
		want        []string
	}{
		"nothing but suspend":            {job("false", bad), job("true", bad), nil},
		"a container put in front":       {job("false", bad), job("false", good+","+bad), nil},
		"entries shifted and changed":    {job("false", bad), job("false", moved), nil},
		"the fault removed":              {job("false", bad), job("false", good), nil},
		"another reserved name":          {job("false", bad), job("false", more), []string{"reserved_env spec.template.spec.containers[0].env[1].name"}},
		"the same name once more":        {job("false", bad), job("false", twice), []string{"reserved_env spec.template.spec.containers[0].env[1].name"}},
		"the fault in another container": {job("false", bad), job("false", bad+`,`+strings.Replace(bad, `"a"`, `"c"`, 1)), []string{"reserved_env spec.template.spec.containers[1].env[0].name", "path_conflict spec.template.spec.containers[1].volumeMounts[0].mountPath"}},
		"a fault where there was none":   {job("false", good), job("false", bad), []string{"reserved_env spec.template.spec.containers[0].env[0].name", "path_conflict spec.template.spec.containers[0].volumeMounts[0].mountPath"}},
		"no old object":                  {nil, job("false", twice), []string{"reserved_env spec.template.spec.containers[0].env[0].name", "reserved_env spec.template.spec.containers[0].env[1].name", "path_conflict spec.template.spec.containers[0].volumeMounts[0].mountPath"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := jobRequest(tc.object)
			req.Entry, req.Operation, req.OldObject = mutate.EntryTemplate, mutate.Update, tc.old
			req.Kind = mutate.GroupKind{Group: "batch", Kind: "Job"}
			d, err := mutate.Template(req, testRules())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, found(d)); diff != "" || (d.Outcome == mutate.Denied) != (tc.want != nil) {
				t.Errorf("outcome %q, violations differ (-want +got):\n%s", d.Outcome, diff)
			}
		})
	}
}

// TestTemplatesOfEveryKind plants one reserved name in the shapes that kinds give their templates.
func TestTemplatesOfEveryKind(t *testing.T) {
	t.Parallel()
	const pod = `{"spec":{"containers":[{"name":"c","env":[{"name":"NMP_PRINCIPAL","value":"x"}]}]}}`
	for name, tc := range map[string]struct {
		kind   mutate.GroupKind
		object string
		want   string
	}{
		"CronJob":         {mutate.GroupKind{Group: "batch", Kind: "CronJob"}, `{"spec":{"jobTemplate":{"spec":{"template":` + pod + `}}}}`, "spec.jobTemplate.spec.template"},
		"Deployment":      {mutate.GroupKind{Group: "apps", Kind: "Deployment"}, `{"spec":{"template":` + pod + `}}`, "spec.template"},
		"MPIJob":          {mutate.GroupKind{Group: "kubeflow.org", Kind: "MPIJob"}, `{"spec":{"mpiReplicaSpecs":{"Launcher":{"template":` + pod + `}}}}`, "spec.mpiReplicaSpecs.Launcher.template"},
		"LeaderWorkerSet": {mutate.GroupKind{Group: "leaderworkerset.x-k8s.io", Kind: "LeaderWorkerSet"}, `{"spec":{"leaderWorkerTemplate":{"workerTemplate":` + pod + `}}}`, "spec.leaderWorkerTemplate.workerTemplate"},
		"A35: unknown":    {mutate.GroupKind{Group: "example.com", Kind: "Thing"}, `{"anything":[{"at all":` + pod + `}]}`, "anything[0][at all]"},
		"A36: Env and env": {
			mutate.GroupKind{Group: "example.com", Kind: "Thing"},
			`{"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"NMP_PRINCIPAL","value":"x"}],"Env":[{"name":"SAFE"}]}]}}}}`, "spec.template",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := jobRequest([]byte(tc.object))
			req.Entry, req.Kind = mutate.EntryTemplate, tc.kind
			d, err := mutate.Template(req, testRules())
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"reserved_env " + tc.want + ".spec.containers[0].env[0].name"}
			if diff := cmp.Diff(want, found(d)); diff != "" || d.Outcome != mutate.Denied {
				t.Errorf("outcome %q, violations differ (-want +got):\n%s", d.Outcome, diff)
			}
		})
	}
}

// TestStamps is the stamp on kinds other than pods.
func TestStamps(t *testing.T) {
	t.Parallel()
	stamped := func(by string) []byte {
		return []byte(`{"metadata":{"annotations":{"lanyard.dev/created-by":"` + by + `"}}}`)
	}
	bare := []byte(`{"metadata":{"name":"j"}}`)
	jobKind := mutate.GroupKind{Group: "batch", Kind: "Job"}
	for name, tc := range map[string]struct {
		change func(*mutate.Request)
		want   any
	}{
		"a create is stamped":           {func(r *mutate.Request) { r.Object = bare }, "alice"},
		"a forged stamp is replaced":    {func(r *mutate.Request) { r.Object = stamped("root") }, "alice"},
		"one's own stamp stays":         {func(r *mutate.Request) { r.Object = stamped("alice") }, "alice"},
		"an object without metadata":    {func(r *mutate.Request) { r.Object = []byte(`{}`) }, "alice"},
		"a replace gets its stamp back": {func(r *mutate.Request) { r.Operation, r.Object, r.OldObject = mutate.Update, bare, stamped("bob") }, "bob"},
		"a changed stamp is put back": {func(r *mutate.Request) {
			r.Operation, r.Object, r.OldObject = mutate.Update, stamped("alice"), stamped("bob")
		}, "bob"},
		"an unstamped object stays so": {func(r *mutate.Request) { r.Operation, r.Object, r.OldObject = mutate.Update, bare, bare }, nil},
		"an added stamp is the policy's affair": {
			func(r *mutate.Request) { r.Operation, r.Object, r.OldObject = mutate.Update, stamped("alice"), bare }, "alice",
		},
		"a pod's update is never touched": {
			func(r *mutate.Request) {
				r.Kind, r.Operation, r.Object, r.OldObject = mutate.GroupKind{Kind: "Pod"}, mutate.Update, bare, stamped("bob")
			}, nil,
		},
		"a status is never touched": {
			func(r *mutate.Request) {
				r.Subresource, r.Operation, r.Object, r.OldObject = "status", mutate.Update, bare, stamped("bob")
			}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := jobRequest(nil)
			req.Kind = jobKind
			tc.change(&req)
			d, err := mutate.Stamp(req, testRules())
			if err != nil {
				t.Fatal(err)
			}
			got := field(t, apply(t, req.Object, d.Patch), "metadata", "annotations", "lanyard.dev/created-by")
			if got != tc.want || (d.Outcome == mutate.Stamped) != (len(d.Patch) > 0) {
				t.Errorf("outcome %q, stamp %v, want %v", d.Outcome, got, tc.want)
			}
		})
	}
}

// TestPodUpdatesAreNeverPatched holds Pod to CREATE of pods themselves.
func TestPodUpdatesAreNeverPatched(t *testing.T) {
	t.Parallel()
	req := jobRequest(podtest.Pod().JSON())
	req.Operation, req.OldObject = mutate.Update, req.Object
	if d, err := mutate.Pod(req, testRules()); err != nil || d.Outcome != mutate.Skipped || len(d.Patch) > 0 {
		t.Errorf("an update came to %q with %d operations: %v", d.Outcome, len(d.Patch), err)
	}
}

// TestStampRefusesBadTemplatesOnCreateOnly: the stamp's UPDATE entry must never stand in the way of finalizers.
func TestStampRefusesBadTemplatesOnCreateOnly(t *testing.T) {
	t.Parallel()
	const bad = `{"name":"a","env":[{"name":"NMP_PRINCIPAL","value":"x"}]}`
	for name, tc := range map[string]struct {
		operation mutate.Operation
		words     string
		want      mutate.Outcome
	}{
		"a create is refused":                {mutate.Create, "", mutate.Denied},
		"a create in mode audit is not":      {mutate.Create, "audit", mutate.Stamped},
		"an update is left to its own entry": {mutate.Update, "", mutate.Skipped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := jobRequest(job("false", bad))
			req.Operation, req.OldObject = tc.operation, req.Object
			req.Kind = mutate.GroupKind{Group: "batch", Kind: "Job"}
			d, err := mutate.Stamp(req, rulesFrom(t, tc.words))
			if err != nil || d.Outcome != tc.want {
				t.Errorf("outcome %q, want %q: %v", d.Outcome, tc.want, err)
			}
		})
	}
}
