//go:build unix

package integration

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
	"github.com/lanyard-k8s/lanyard/test/cluster"
)

// violationKey is where the API server notes the violations of policies that only audit.
const violationKey = "validation.policy.admission.k8s.io/validation_failure"

// noted waits for the note of a pod's creation by a user in a namespace, with this answer.
func noted(t *testing.T, cp *cluster.ControlPlane, user, namespace string, code int) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	e, err := cp.AwaitAudit(ctx, func(e cluster.AuditEvent) bool {
		return e.Verb == "create" && e.ObjectRef.Resource == "pods" && e.ObjectRef.Subresource == "" &&
			e.ObjectRef.Namespace == namespace && e.User.Username == user && e.ResponseStatus.Code == code
	})
	if err != nil {
		t.Fatal(err)
	}
	return e.Annotations
}

// ours are the notes of one of our entries, less the rules' version, which must be there.
func ours(t *testing.T, notes map[string]string, entry string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for key, value := range notes {
		if rest, ok := strings.CutPrefix(key, entry+"/"); ok {
			found[rest] = value
		}
	}
	if version := found[wire.AuditRuleVersion]; !regexp.MustCompile(`^[0-9]+-[0-9a-f]{8}$`).MatchString(version) {
		t.Errorf("%s notes rule version %q", entry, version)
	}
	delete(found, wire.AuditRuleVersion)
	return found
}

// TestAuditLogOfTheAPIServer reads what our webhook has written into it of a pod that was injected and of one that was
// refused.
func TestAuditLogOfTheAPIServer(t *testing.T) {
	t.Parallel()
	namespace := managed(t)
	alice, bob := editor(t, "alice", namespace), editor(t, "bob", namespace)
	makePod(t, alice, namespace)
	_, err := tryPod(t, bob, namespace, newPod(setting(wire.EnvPrincipal, "a-secret-value"), withToken(wire.DefaultJobAudience)))
	refused(t, err, `"job.mutate.lanyard.dev" denied`)

	notes := noted(t, controlPlane(t), "alice", namespace, 201)
	for entry, decision := range map[string]string{"job.mutate.lanyard.dev": "injected", "job.validate.lanyard.dev": "allowed"} {
		want := map[string]string{wire.AuditRole: "job", wire.AuditDecision: decision, wire.AuditAudience: wire.DefaultJobAudience}
		if diff := cmp.Diff(want, ours(t, notes, entry)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", entry, diff)
		}
	}
	notes = noted(t, controlPlane(t), "bob", namespace, 403)
	got := ours(t, notes, "job.mutate.lanyard.dev")
	reasons := string(violation.AudienceForbidden) + "," + string(violation.ReservedEnv)
	if got[wire.AuditDecision] != "denied" || got[wire.AuditReasons] != reasons {
		t.Errorf("of the refusal is noted %v, want reasons %s", got, reasons)
	}
	for _, value := range notes {
		if strings.Contains(value, "a-secret-value") {
			t.Errorf("the audit log has a variable's value: %s", value)
		}
	}
}
