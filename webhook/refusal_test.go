package webhook

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
	"github.com/lanyard-k8s/lanyard/webhook/settings"
)

func TestRefusalSaysEverythingAtOnce(t *testing.T) {
	t.Parallel()
	var vs []violation.Violation
	for i := range 30 {
		vs = append(vs, violation.Violation{Reason: violation.ReservedEnv, Field: fmt.Sprintf("spec.containers[%02d].env[0].name", 29-i), Message: "is the platform's; remove it"})
	}
	vs = append(vs, violation.Violation{Reason: violation.NotInjected, Field: "a", Message: "the token is not there"})
	d, _ := newDesk(t, decides(mutate.Decision{Outcome: mutate.Denied, Violations: vs, More: 4}, nil))
	r := reviewed(t, post(d, wire.PathValidateJob, ask{}.body()))
	if r.Result.Code != 403 || r.Result.Reason != metav1.StatusReasonForbidden || len(r.Result.Details.Causes) != maxViolations {
		t.Fatalf("result %+v", r.Result)
	}
	first := metav1.StatusCause{Type: metav1.CauseTypeFieldValueRequired, Message: "Required value: the token is not there", Field: "a"}
	if diff := cmp.Diff(first, r.Result.Details.Causes[0]); diff != "" {
		t.Errorf("first cause (-want +got):\n%s", diff)
	}
	for _, want := range []string{
		"[a: Required value: the token is not there, spec.containers[00].env[0].name: Forbidden: is the platform's; remove it, ",
		", and 10 more]; see " + settings.DefaultDocsURL,
	} {
		if !strings.Contains(r.Result.Message, want) {
			t.Errorf("message lacks %q: %s", want, r.Result.Message)
		}
	}
	if got := r.AuditAnnotations[wire.AuditReasons]; got != "not_injected,reserved_env" {
		t.Errorf("reasons %q", got)
	}
}

func TestWarningsReachTheirReader(t *testing.T) {
	t.Parallel()
	want := []string{strings.Repeat("ä", mutate.MaxWarningLength), "2", "3", "4", "and 3 more warnings"}
	d, _ := newDesk(t, decides(mutate.Decision{Outcome: mutate.Allowed, Warnings: want}, nil))
	got := reviewed(t, post(d, wire.PathValidateJob, ask{}.body())).Warnings
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAuditAnnotations(t *testing.T) {
	t.Parallel()
	d, _ := newDesk(t)
	got := reviewed(t, post(d, wire.PathMutateJob, ask{}.body())).AuditAnnotations
	want := map[string]string{
		wire.AuditRole: "job", wire.AuditDecision: "injected", wire.AuditAudience: wire.DefaultJobAudience, wire.AuditRuleVersion: d.version,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
