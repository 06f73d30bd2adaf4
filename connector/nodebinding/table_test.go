package nodebinding_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

// row is one line of the truth table, for one way of meeting it.
type row struct {
	rules nodebinding.Rules
	mode  nodebinding.Mode // empty means enforce
	from  nodebinding.Evidence
	names []string
	want  nodebinding.Outcome // Event is -1 where the row leaves it zero and the batch has no fault; see want
	after []string            // nil means unchanged
}

func check(t *testing.T, rows map[string]row) {
	t.Helper()
	for name, tc := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mode, after := tc.mode, tc.after
			if mode == "" {
				mode = nodebinding.Enforce
			}
			if after == nil {
				after = tc.names
			}
			batch := batchOf(tc.names...)
			got := nodebinding.Apply(nodebinding.Decide(tc.rules, tc.from), mode, batch)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(after, batch.names()); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			if got.Allowed() != (got.Message() == "") {
				t.Errorf("allowed %v with the message %q", got.Allowed(), got.Message())
			}
		})
	}
}

// passes is an outcome that lets the batch go on.
func passes(s nodebinding.Scope, c nodebinding.Claim, stamped int) nodebinding.Outcome {
	return nodebinding.Outcome{Code: nodebinding.OK, Event: -1, Scope: s, Claim: c, Stamped: stamped}
}

// audited is a passing outcome of audit: what the caller and the batch did wrong, and which event did.
func audited(caller, batch nodebinding.Reason, event, stamped int) nodebinding.Outcome {
	return nodebinding.Outcome{
		Code: nodebinding.OK, Event: event, Scope: nodebinding.NodeLocal, CallerViolation: caller, BatchViolation: batch, Stamped: stamped,
	}
}

// refused is an outcome in which the caller got no scope.
func refused(code nodebinding.Code, why nodebinding.Reason, c nodebinding.Claim) nodebinding.Outcome {
	return nodebinding.Outcome{Code: code, Reason: why, Event: -1, CallerViolation: why, Claim: c}
}

// atEvent is an outcome in which the caller got a scope and an event of the batch lies outside it.
func atEvent(code nodebinding.Code, why nodebinding.Reason, event int, s nodebinding.Scope, c nodebinding.Claim) nodebinding.Outcome {
	return nodebinding.Outcome{Code: code, Reason: why, Event: event, Scope: s, Claim: c, BatchViolation: why}
}

func with(o nodebinding.Outcome, change func(*nodebinding.Outcome)) nodebinding.Outcome {
	change(&o)
	return o
}

func outage(o *nodebinding.Outcome)        { o.Outage = true }
func verifiedClaim(o *nodebinding.Outcome) { o.Claim = nodebinding.ClaimVerified }
func absentClaim(o *nodebinding.Outcome)   { o.Claim = nodebinding.ClaimAbsent }

// degraded marks an outcome of fail-open, with the review's violation.
func degraded(why nodebinding.Reason) func(*nodebinding.Outcome) {
	return func(o *nodebinding.Outcome) { o.Degraded, o.CallerViolation = true, why }
}

// TestEveryRowIsTested keeps the row numbers of the tables complete.
func TestEveryRowIsTested(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for _, table := range []map[string]row{socketRows(), failOpenRows(), auditRows(), deploymentRows(), disabledRows()} {
		for name := range table {
			var number int
			if _, err := fmt.Sscanf(name, "row %d:", &number); err != nil {
				t.Errorf("%q does not begin with its row's number: %v", name, err)
			}
			seen[number] = true
		}
	}
	for number := 1; number <= 33; number++ {
		if !seen[number] {
			t.Errorf("row %d is not tested", number)
		}
	}
}
