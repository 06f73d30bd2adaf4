package mutate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
)

func TestStamp(t *testing.T) {
	t.Parallel()
	const clean = `{"spec":{"containers":[{"name":"trainer"}]}}`
	const dirty = `{"spec":{"containers":[{"name":"trainer","env":[{"name":"NMP_PRINCIPAL","value":"bob"}]}]}}`
	job := func(metadata, template string) string {
		return `{"metadata":` + metadata + `,"spec":{"template":` + template + `}}`
	}
	cases := map[string]struct {
		operation   mutate.Operation
		object, old string
		mode        mutate.Mode
		want        mutate.Outcome
		wantOps     []mutate.Op
		wantReasons []violation.Reason
	}{
		"a new job without annotations gets its creator's name": {
			operation: mutate.Create, object: job(`{"name":"a"}`, clean), want: mutate.Stamped,
			wantOps: []mutate.Op{{Op: "add", Path: "/metadata/annotations", Value: []byte(`{"lanyard.dev/created-by":"alice"}`)}},
		},
		"a new job that names somebody else is overridden": {
			operation: mutate.Create, object: job(`{"annotations":{"lanyard.dev/created-by":"bob"}}`, clean), want: mutate.Stamped,
			wantOps: []mutate.Op{{Op: "add", Path: "/metadata/annotations/lanyard.dev~1created-by", Value: []byte(`"alice"`)}},
		},
		"a new job that names its creator is left as it is": {
			operation: mutate.Create, object: job(`{"annotations":{"lanyard.dev/created-by":"alice"}}`, clean), want: mutate.Skipped,
		},
		"a new job with a reserved name in its template is refused before any policy is asked": {
			operation: mutate.Create, object: job(`{"name":"a"}`, dirty), want: mutate.Denied,
			wantReasons: []violation.Reason{violation.ReservedEnv},
		},
		"in mode audit it is stamped, and the validating entry warns": {
			operation: mutate.Create, object: job(`{"annotations":{}}`, dirty), mode: mutate.Audit, want: mutate.Stamped,
			wantOps: []mutate.Op{{Op: "add", Path: "/metadata/annotations", Value: []byte(`{"lanyard.dev/created-by":"alice"}`)}},
		},
		"an update that dropped the stamp gets it back": {
			operation: mutate.Update, object: job(`{"annotations":{}}`, clean), old: job(`{"annotations":{"lanyard.dev/created-by":"bob"}}`, clean),
			want:    mutate.Stamped,
			wantOps: []mutate.Op{{Op: "add", Path: "/metadata/annotations", Value: []byte(`{"lanyard.dev/created-by":"bob"}`)}},
		},
		"an update is stamped whatever its template holds, since the validating entry weighs what it adds": {
			operation: mutate.Update, object: job(`{"annotations":{}}`, dirty), old: job(`{"annotations":{"lanyard.dev/created-by":"bob"}}`, clean),
			want:    mutate.Stamped,
			wantOps: []mutate.Op{{Op: "add", Path: "/metadata/annotations", Value: []byte(`{"lanyard.dev/created-by":"bob"}`)}},
		},
		"an update of an object that never had a stamp adds none": {
			operation: mutate.Update, object: job(`{}`, clean), old: job(`{}`, clean), want: mutate.Skipped,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := testRules()
			if tc.mode != "" {
				rules.Mode = tc.mode
			}
			req := jobRequest([]byte(tc.object))
			req.Operation, req.Kind, req.OldObject = tc.operation, mutate.GroupKind{Group: "batch", Kind: "Job"}, []byte(tc.old)
			got, err := mutate.Stamp(req, rules)
			if err != nil {
				t.Fatal(err)
			}
			var reasons []violation.Reason
			for _, v := range got.Violations {
				reasons = append(reasons, v.Reason)
			}
			if got.Outcome != tc.want {
				t.Errorf("outcome is %s, want %s", got.Outcome, tc.want)
			}
			if diff := cmp.Diff(tc.wantOps, got.Patch); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantReasons, reasons); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}
