package nodebinding_test

import (
	"testing"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

func TestAudit(t *testing.T)    { t.Parallel(); check(t, auditRows()) }
func TestDisabled(t *testing.T) { t.Parallel(); check(t, disabledRows()) }

func auditRows() map[string]row {
	const (
		audit    = nodebinding.Audit
		mismatch = nodebinding.NodeMismatch
	)
	r := socket()
	names, after := []string{"", foreign, "", own, "node-c"}, []string{own, foreign, own, own, "node-c"}
	rows := map[string]row{
		"row 19: no token":                   {r, audit, noToken(), names, audited("", mismatch, 1, 2), after},
		"row 19: own token":                  {r, audit, bound(unlisted, own), names, with(audited("", mismatch, 1, 2), verifiedClaim), after},
		"row 21: fail-open, unavailable":     {failOpen(), audit, review(nodebinding.Unavailable), names, with(audited(nodebinding.ValidatorUnavailable, "", 1, 2), degraded(nodebinding.ValidatorUnavailable)), after},
		"row 21: fail-open, timed out":       {failOpen(), audit, review(nodebinding.DeadlineExceeded), names, with(audited(nodebinding.ValidatorTimeout, "", 1, 2), degraded(nodebinding.ValidatorTimeout)), after},
		"row 22: listed, not bound":          {r, audit, unbound(listed), names, with(audited(nodebinding.UnboundCrossNodeToken, mismatch, 1, 2), absentClaim), after},
		"row 22: listed, the node alone":     {r, audit, onNode(listed, own), names, with(audited(nodebinding.UnboundCrossNodeToken, mismatch, 1, 2), verifiedClaim), after},
		"row 22: listed, never scheduled":    {r, audit, unscheduled(listed), names, with(audited(nodebinding.CrossNodeClaimAbsent, mismatch, 1, 2), absentClaim), after},
		"row 22: listed, not bound, blank":   {r, audit, unbound(listed), []string{""}, with(audited(nodebinding.UnboundCrossNodeToken, "", -1, 1), absentClaim), []string{own}},
		"row 17: listed callers stay listed": {r, audit, bound(listed, own), []string{foreign}, passes(nodebinding.CrossNode, nodebinding.ClaimVerified, 0), nil},
	}
	for name, c := range map[string]struct {
		from nodebinding.Evidence
		why  nodebinding.Reason
	}{
		"malformed":                    {malformed(), nodebinding.MalformedCredentials},
		"not a token":                  {unusable(), nodebinding.TokenInvalid},
		"the review says no":           {review(nodebinding.Unauthenticated), nodebinding.TokenInvalid},
		"unavailable":                  {review(nodebinding.Unavailable), nodebinding.ValidatorUnavailable},
		"timed out":                    {review(nodebinding.DeadlineExceeded), nodebinding.ValidatorTimeout},
		"another error":                {review(nodebinding.Internal), nodebinding.ValidatorError},
		"another node's token":         {bound(unlisted, foreign), nodebinding.NodeClaimMismatch},
		"another node's token, listed": {bound(listed, foreign), nodebinding.NodeClaimMismatch},
	} {
		rows["row 20: "+name] = row{r, audit, c.from, names, audited(c.why, mismatch, 1, 2), after}
		rows["row 20: "+name+", no foreign name"] = row{r, audit, c.from, []string{"", own}, audited(c.why, "", -1, 1), []string{own, own}}
	}
	return rows
}

func disabledRows() map[string]row {
	off := nodebinding.Outcome{Code: nodebinding.OK, Event: -1}
	none := nodebinding.Rules{Role: nodebinding.Socket}
	return map[string]row{
		"row 33: no token":           {none, nodebinding.Disabled, noToken(), []string{"", foreign, absent}, off, nil},
		"row 33: malformed":          {socket(), nodebinding.Disabled, malformed(), []string{"", foreign}, off, nil},
		"row 33: nobody looked":      {none, nodebinding.Disabled, nodebinding.Evidence{}, []string{""}, off, nil},
		"row 33: listed and blank":   {socket(), nodebinding.Disabled, bound(listed, own), []string{""}, off, nil},
		"row 33: never a deployment": {deployment(), nodebinding.Disabled, bound(listed, own), []string{own}, nodebinding.Outcome{Code: nodebinding.Internal, Event: -1}, nil},
	}
}
