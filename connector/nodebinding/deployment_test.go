package nodebinding_test

import (
	"maps"
	"testing"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

func TestDeployment(t *testing.T) { t.Parallel(); check(t, deploymentRows()) }

// TestDeploymentAlwaysEnforces runs the deployment's rows once more with AuthMode: audit.
func TestDeploymentAlwaysEnforces(t *testing.T) {
	t.Parallel()
	rows := maps.Clone(deploymentRows())
	for name, tc := range rows {
		tc.mode = nodebinding.Audit
		rows[name] = tc
	}
	check(t, rows)
}

func deploymentRows() map[string]row {
	const (
		u, pd    = nodebinding.Unauthenticated, nodebinding.PermissionDenied
		nl, cn   = nodebinding.NodeLocal, nodebinding.CrossNode
		yes, no  = nodebinding.ClaimVerified, nodebinding.ClaimAbsent
		mismatch = nodebinding.NodeMismatch
	)
	r := deployment() // with fail-open set, which it must ignore
	return map[string]row{
		"row 23: no token":                      {r, "", noToken(), []string{own}, refused(u, nodebinding.TokenMissing, ""), nil},
		"row 23: no token, an empty batch":      {r, "", noToken(), []string{}, refused(u, nodebinding.TokenMissing, ""), nil},
		"row 24: malformed":                     {r, "", malformed(), []string{own}, refused(u, nodebinding.MalformedCredentials, ""), nil},
		"row 24: the review says no":            {r, "", review(u), []string{own}, refused(u, nodebinding.TokenInvalid, ""), nil},
		"row 24: not a token":                   {r, "", unusable(), []string{own}, refused(u, nodebinding.TokenInvalid, ""), nil},
		"row 25: unavailable":                   {r, "", review(nodebinding.Unavailable), []string{own}, with(refused(nodebinding.Unavailable, nodebinding.ValidatorUnavailable, ""), outage), nil},
		"row 25: timed out":                     {r, "", review(nodebinding.DeadlineExceeded), []string{""}, refused(nodebinding.DeadlineExceeded, nodebinding.ValidatorTimeout, ""), nil},
		"row 25: another error":                 {r, "", review(nodebinding.Internal), []string{own}, refused(nodebinding.Internal, nodebinding.ValidatorError, ""), nil},
		"row 25: yes without an identity":       {r, "", verified(nodebinding.Identity{}), []string{own}, refused(nodebinding.Internal, nodebinding.ValidatorError, ""), nil},
		"row 26: not bound":                     {r, "", unbound(unlisted), []string{own}, refused(pd, nodebinding.UnboundToken, no), nil},
		"row 26: bound to a node alone":         {r, "", onNode(unlisted, own), []string{own}, refused(pd, nodebinding.UnboundToken, ""), nil},
		"row 27: never scheduled":               {r, "", unscheduled(unlisted), []string{own}, refused(pd, nodebinding.NodeClaimAbsent, no), nil},
		"row 28: own node and blank":            {r, "", bound(unlisted, own), []string{own, "", absent}, passes(nl, yes, 1), []string{own, own, absent}},
		"row 28: each caller has its own node":  {r, "", bound(unlisted, foreign), []string{foreign, ""}, passes(nl, yes, 1), []string{foreign, foreign}},
		"row 29: another node":                  {r, "", bound(unlisted, own), []string{"", foreign}, atEvent(pd, mismatch, 1, nl, yes), nil},
		"row 30: listed, not bound":             {r, "", unbound(listed), []string{own}, refused(pd, nodebinding.UnboundCrossNodeToken, no), nil},
		"row 30: listed, bound to a node alone": {r, "", onNode(listed, own), []string{own}, refused(pd, nodebinding.UnboundCrossNodeToken, ""), nil},
		"row 30: listed, never scheduled":       {r, "", unscheduled(listed), []string{own}, refused(pd, nodebinding.CrossNodeClaimAbsent, no), nil},
		"row 31: listed, any names":             {r, "", bound(listed, own), []string{own, foreign, absent}, passes(cn, yes, 0), nil},
		"row 32: listed, a blank name":          {r, "", bound(listed, own), []string{foreign, ""}, atEvent(nodebinding.InvalidArgument, nodebinding.MissingNodeName, 1, cn, yes), nil},
	}
}
