package nodebinding_test

import (
	"testing"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

func TestSocket(t *testing.T)   { t.Parallel(); check(t, socketRows()) }
func TestFailOpen(t *testing.T) { t.Parallel(); check(t, failOpenRows()) }

func socketRows() map[string]row {
	const (
		u, pd    = nodebinding.Unauthenticated, nodebinding.PermissionDenied
		nl, cn   = nodebinding.NodeLocal, nodebinding.CrossNode
		yes, no  = nodebinding.ClaimVerified, nodebinding.ClaimAbsent
		mismatch = nodebinding.NodeMismatch
	)
	r := socket()
	return map[string]row{
		"row 01: no token, own and blank":            {r, "", noToken(), []string{own, ""}, passes(nl, "", 1), []string{own, own}},
		"row 01: no token, an empty batch":           {r, "", noToken(), []string{}, passes(nl, "", 0), nil},
		"row 01: no token, nil events are skipped":   {r, "", noToken(), []string{absent, "", absent}, passes(nl, "", 1), []string{absent, own, absent}},
		"row 02: no token, another node":             {r, "", noToken(), []string{"", own, foreign, ""}, atEvent(pd, mismatch, 2, nl, ""), nil},
		"row 02: no token, upper case":               {r, "", noToken(), []string{"Node-A"}, atEvent(pd, mismatch, 0, nl, ""), nil},
		"row 02: no token, a trailing dot":           {r, "", noToken(), []string{own + "."}, atEvent(pd, mismatch, 0, nl, ""), nil},
		"row 02: no token, a space is not blank":     {r, "", noToken(), []string{" "}, atEvent(pd, mismatch, 0, nl, ""), nil},
		"row 02: no token, after a nil event":        {r, "", noToken(), []string{absent, "", foreign}, atEvent(pd, mismatch, 2, nl, ""), nil},
		"row 03: malformed":                          {r, "", malformed(), []string{own, ""}, refused(u, nodebinding.MalformedCredentials, ""), nil},
		"row 03: malformed, an empty batch":          {r, "", malformed(), []string{}, refused(u, nodebinding.MalformedCredentials, ""), nil},
		"row 04: the review says no":                 {r, "", review(u), []string{""}, refused(u, nodebinding.TokenInvalid, ""), nil},
		"row 04: not a token at all":                 {r, "", unusable(), []string{""}, refused(u, nodebinding.TokenInvalid, ""), nil},
		"row 05: unavailable":                        {r, "", review(nodebinding.Unavailable), []string{own}, with(refused(nodebinding.Unavailable, nodebinding.ValidatorUnavailable, ""), outage), nil},
		"row 06: deadline exceeded":                  {r, "", review(nodebinding.DeadlineExceeded), []string{own}, refused(nodebinding.DeadlineExceeded, nodebinding.ValidatorTimeout, ""), nil},
		"row 06: canceled":                           {r, "", review(nodebinding.Canceled), []string{own}, refused(nodebinding.Canceled, nodebinding.ValidatorTimeout, ""), nil},
		"row 07: internal":                           {r, "", review(nodebinding.Internal), []string{own}, refused(nodebinding.Internal, nodebinding.ValidatorError, ""), nil},
		"row 07: any other code":                     {r, "", review(nodebinding.FailedPrecondition), []string{own}, refused(nodebinding.FailedPrecondition, nodebinding.ValidatorError, ""), nil},
		"row 07: yes without an identity":            {r, "", verified(nodebinding.Identity{PodUID: "p", Node: own}), []string{own}, refused(nodebinding.Internal, nodebinding.ValidatorError, ""), nil},
		"row 07: no answer at all":                   {r, "", review(nodebinding.Undecided), []string{own}, refused(nodebinding.Internal, nodebinding.ValidatorError, ""), nil},
		"row 10: another node's token":               {r, "", bound(unlisted, foreign), []string{own}, refused(pd, nodebinding.NodeClaimMismatch, ""), nil},
		"row 10: another node's token, listed":       {r, "", bound(listed, foreign), []string{own}, refused(pd, nodebinding.NodeClaimMismatch, ""), nil},
		"row 10: another node's token, not bound":    {r, "", onNode(listed, foreign), []string{}, refused(pd, nodebinding.NodeClaimMismatch, ""), nil},
		"row 11: own token":                          {r, "", bound(unlisted, own), []string{own, ""}, passes(nl, yes, 1), []string{own, own}},
		"row 11: own token, bound to the node alone": {r, "", onNode(unlisted, own), []string{""}, passes(nl, yes, 1), []string{own}},
		"row 12: own token, another node":            {r, "", bound(unlisted, own), []string{"", foreign}, atEvent(pd, mismatch, 1, nl, yes), nil},
		"row 13: no claim, bound":                    {r, "", unscheduled(unlisted), []string{own, ""}, passes(nl, no, 1), []string{own, own}},
		"row 13: no claim, not bound":                {r, "", unbound(unlisted), []string{own, ""}, passes(nl, no, 1), []string{own, own}},
		"row 14: no claim, another node":             {r, "", unbound(unlisted), []string{foreign}, atEvent(pd, mismatch, 0, nl, no), nil},
		"row 15: listed, not bound":                  {r, "", unbound(listed), []string{own}, refused(pd, nodebinding.UnboundCrossNodeToken, no), nil},
		"row 15: listed, bound to the node alone":    {r, "", onNode(listed, own), []string{own}, refused(pd, nodebinding.UnboundCrossNodeToken, yes), nil},
		"row 16: listed, never scheduled":            {r, "", unscheduled(listed), []string{own}, refused(pd, nodebinding.CrossNodeClaimAbsent, no), nil},
		"row 17: listed, any names":                  {r, "", bound(listed, own), []string{own, foreign, "node-c", absent}, passes(cn, yes, 0), nil},
		"row 17: listed, an empty batch":             {r, "", bound(listed, own), []string{}, passes(cn, yes, 0), nil},
		"row 18: listed, a blank name":               {r, "", bound(listed, own), []string{foreign, absent, "", ""}, atEvent(nodebinding.InvalidArgument, nodebinding.MissingNodeName, 2, cn, yes), nil},
		"row 18: listed, a blank name, in audit":     {r, nodebinding.Audit, bound(listed, own), []string{""}, atEvent(nodebinding.InvalidArgument, nodebinding.MissingNodeName, 0, cn, yes), nil},
	}
}

func failOpenRows() map[string]row {
	const (
		nl       = nodebinding.NodeLocal
		down     = nodebinding.Unavailable
		slow     = nodebinding.DeadlineExceeded
		downWhy  = nodebinding.ValidatorUnavailable
		slowWhy  = nodebinding.ValidatorTimeout
		perhaps  = nodebinding.Unavailable
		mayRetry = "row 09: "
	)
	r := failOpen()
	foreignAt := func(i int, why nodebinding.Reason) nodebinding.Outcome {
		return nodebinding.Outcome{Code: perhaps, Reason: why, Event: i, Scope: nl, Degraded: true, CallerViolation: why}
	}
	return map[string]row{
		"row 08: unavailable, own and blank": {r, "", review(down), []string{own, ""}, with(passes(nl, "", 1), degraded(downWhy)), []string{own, own}},
		"row 08: timed out, blank":           {r, "", review(slow), []string{""}, with(passes(nl, "", 1), degraded(slowWhy)), []string{own}},
		"row 08: canceled, blank":            {r, "", review(nodebinding.Canceled), []string{""}, with(passes(nl, "", 1), degraded(slowWhy)), []string{own}},
		mayRetry + "unavailable":             {r, "", review(down), []string{"", foreign}, foreignAt(1, downWhy), nil},
		mayRetry + "timed out":               {r, "", review(slow), []string{foreign}, foreignAt(0, slowWhy), nil},
		"row 04: the review says no":         {r, "", review(nodebinding.Unauthenticated), []string{""}, refused(nodebinding.Unauthenticated, nodebinding.TokenInvalid, ""), nil},
		"row 07: another error":              {r, "", review(nodebinding.Internal), []string{""}, refused(nodebinding.Internal, nodebinding.ValidatorError, ""), nil},
		"row 03: malformed":                  {r, "", malformed(), []string{""}, refused(nodebinding.Unauthenticated, nodebinding.MalformedCredentials, ""), nil},
	}
}
