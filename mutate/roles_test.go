package mutate_test

import (
	"fmt"
	"testing"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// TestWhoGetsWhat goes through every combination of entry, owner, label, account, mirror annotation, caller and switched-off
// role, against a second, plain statement of section 1.
func TestWhoGetsWhat(t *testing.T) {
	t.Parallel()
	owners := map[string]podtest.Edit{
		"bare": nil, "batch/v1 Job": podtest.Owner("batch/v1", "Job"), "batch/v1beta9 Job": podtest.Owner("batch/v1beta9", "Job"),
		"apps/v1 ReplicaSet": podtest.Owner("apps/v1", "ReplicaSet"), "volcano Job": podtest.Owner("batch.volcano.sh/v1alpha1", "Job"), "v1 Job": podtest.Owner("v1", "Job"),
		"batch/v1 CronJob": podtest.Owner("batch/v1", "CronJob"),
	}
	for _, entry := range []mutate.Entry{mutate.EntryJob, mutate.EntryPublisher, mutate.EntryListed} {
		for owner, edit := range owners {
			for _, role := range []string{"", "none", "publisher"} {
				for _, account := range []string{"", "gpu-monitor", "other"} {
					for _, mirror := range []bool{false, true} {
						for _, node := range []bool{false, true} {
							for _, off := range []bool{false, true} {
								c := combination{entry, owner, role, account, mirror, node, off}
								t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) { c.check(t, edit) })
							}
						}
					}
				}
			}
		}
	}
}

type combination struct {
	entry        mutate.Entry
	owner        string
	role         string
	account      string
	mirror, node bool
	off          bool
}

// want states the rule a second time.
func (c combination) want() (role mutate.Role, outcome mutate.Outcome) {
	static := c.mirror && c.node
	job := c.role != "none" && (c.owner == "bare" || c.owner == "batch/v1 Job" || c.owner == "batch/v1beta9 Job")
	switch {
	case c.entry == mutate.EntryJob && job && !static && !c.off:
		return mutate.Job, mutate.Injected
	case c.entry == mutate.EntryJob:
		return "", mutate.Stamped
	case c.entry == mutate.EntryPublisher && c.role == "publisher" && !static && !c.off:
		return mutate.Publisher, mutate.Injected
	case c.entry == mutate.EntryListed && c.account == "gpu-monitor" && !static && !c.off:
		return mutate.Publisher, mutate.Injected
	default:
		return "", mutate.Skipped
	}
}

func (c combination) check(t *testing.T, owner podtest.Edit) {
	edits := []podtest.Edit{podtest.Spec("serviceAccountName", c.account)}
	if owner != nil {
		edits = append(edits, owner)
	}
	if c.role != "" {
		edits = append(edits, podtest.Label(wire.LabelRole, c.role))
	}
	if c.mirror {
		edits = append(edits, podtest.Annotation(wire.AnnotationMirror, "hash"))
	}
	req := jobRequest(podtest.Pod(edits...).JSON())
	req.Entry, req.Namespace = c.entry, "monitoring"
	if c.node {
		req.Groups = []string{"system:nodes"}
	}
	rules := testRules()
	if c.off {
		rules.Job, rules.Publisher = nil, nil
	}
	wantRole, wantOutcome := c.want()
	d, err := mutate.Pod(req, rules)
	if err != nil {
		t.Fatal(err)
	}
	var role mutate.Role
	if len(d.Roles) == 1 {
		role = d.Roles[0]
	}
	if role != wantRole || d.Outcome != wantOutcome {
		t.Errorf("got %q as %q, want %q as %q", d.Outcome, role, wantOutcome, wantRole)
	}
	// What was asked for and not given is refused, and nothing else.
	v, err := mutate.Verify(req, rules)
	if err != nil {
		t.Fatal(err)
	}
	if wantRole != "" && v.Outcome != mutate.Denied || wantRole == "" && v.Outcome != mutate.Allowed {
		t.Errorf("the bare pod is %q by the validating entry", v.Outcome)
	}
}

// TestBothRolesInEitherOrder lets a job's pod be a publisher too; whichever entry comes first, the pod ends the same but
// for the order of its parts, passes both validating entries and is left alone by a second round.
func TestBothRolesInEitherOrder(t *testing.T) {
	t.Parallel()
	for name, entries := range map[string][]mutate.Entry{
		"job first":       {mutate.EntryJob, mutate.EntryPublisher},
		"publisher first": {mutate.EntryPublisher, mutate.EntryJob},
		"listed too":      {mutate.EntryListed, mutate.EntryJob, mutate.EntryPublisher},
	} {
		for _, words := range []string{"", "publisherCA"} {
			t.Run(name+" "+words, func(t *testing.T) {
				t.Parallel()
				rules := rulesFrom(t, words)
				req := jobRequest(podtest.Pod(podtest.Label(wire.LabelRole, "publisher"), podtest.Spec("serviceAccountName", "gpu-monitor")).JSON())
				req.Namespace = "monitoring"
				call := func(entry mutate.Entry, f func(mutate.Request, mutate.Rules) (mutate.Decision, error)) mutate.Decision {
					req.Entry = entry
					d, err := f(req, rules)
					if err != nil {
						t.Fatal(err)
					}
					return d
				}
				for _, e := range entries {
					d := call(e, mutate.Pod)
					if !d.Outcome.Allows() {
						t.Fatalf("%s: %v", e, d.Violations)
					}
					req.Object = apply(t, req.Object, d.Patch)
				}
				for _, e := range entries {
					if d := call(e, mutate.Pod); len(d.Patch) > 0 || d.Outcome != mutate.Already {
						t.Errorf("%s patches again: %q %v", e, d.Outcome, d.Patch)
					}
					if d := call(e, mutate.Verify); d.Outcome != mutate.Allowed {
						t.Errorf("%s refuses: %v", e, d.Violations)
					}
				}
				if got := field(t, req.Object, "metadata", "labels", wire.LabelInjected); got != "publisher.job" {
					t.Errorf("label %s is %v", wire.LabelInjected, got)
				}
			})
		}
	}
}
