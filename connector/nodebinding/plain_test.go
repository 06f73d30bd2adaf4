package nodebinding_test

import (
	"slices"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

// plain is what the rules make of a call.
type plain struct {
	outcome nodebinding.Outcome
	names   []string
}

// statePlainly is a second statement of the rules, written as they are told: step by step, without a thought for speed,
// and knowing nothing of how Decide and Apply go about it.
func statePlainly(r nodebinding.Rules, e nodebinding.Evidence, m nodebinding.Mode, names []string) plain {
	stop := func(o nodebinding.Outcome) plain { return plain{outcome: o, names: names} }
	undecided := stop(nodebinding.Outcome{Code: nodebinding.Internal, Event: -1})
	if m == nodebinding.Disabled {
		if r.Role == nodebinding.Socket {
			return stop(nodebinding.Outcome{Code: nodebinding.OK, Event: -1})
		}
		return undecided
	}
	if r.Role == "" || r.Role == nodebinding.Socket && r.OwnNode == "" {
		return undecided
	}
	if e.Credential < nodebinding.CredentialAbsent || e.Credential > nodebinding.CredentialPresented {
		return undecided
	}

	why, code := callerFault(r, e)
	scope, node := nodebinding.NodeLocal, r.OwnNode
	if r.Role == nodebinding.Deployment {
		node = e.Identity.Node
	}
	claim := countedClaim(r, e, why)
	guess := false
	switch {
	case why == "":
		if e.Credential == nodebinding.CredentialPresented && r.CrossNode.Has(e.Identity.Username) {
			scope = nodebinding.CrossNode
		}
	case r.Role == nodebinding.Socket && r.FailOpen && (why == nodebinding.ValidatorUnavailable || why == nodebinding.ValidatorTimeout):
		guess = true
	case r.Role == nodebinding.Socket && m == nodebinding.Audit:
		// counted, and the caller goes on as node-local
	default:
		outage := code == nodebinding.Unavailable && (why == nodebinding.ValidatorUnavailable || why == nodebinding.RateLimited)
		return stop(nodebinding.Outcome{Code: code, Reason: why, Event: -1, Outage: outage, Claim: claim, CallerViolation: why})
	}

	o := nodebinding.Outcome{Code: nodebinding.OK, Event: -1, Scope: scope, Degraded: guess, Claim: claim, CallerViolation: why}
	if scope == nodebinding.CrossNode {
		if i := slices.Index(names, ""); i >= 0 {
			o.Code, o.Reason, o.BatchViolation, o.Event = nodebinding.InvalidArgument, nodebinding.MissingNodeName, nodebinding.MissingNodeName, i
		}
		return stop(o)
	}
	o.Event = slices.IndexFunc(names, func(n string) bool { return n != absent && n != "" && n != node })
	letThrough := r.Role == nodebinding.Socket && m == nodebinding.Audit
	if o.Event >= 0 && !guess {
		o.BatchViolation = nodebinding.NodeMismatch
	}
	if o.Event >= 0 && !letThrough {
		o.Code, o.Reason = nodebinding.PermissionDenied, nodebinding.NodeMismatch
		if guess {
			o.Code, o.Reason = nodebinding.Unavailable, why
		}
		return stop(o)
	}
	stamped := slices.Clone(names)
	for i, n := range stamped {
		if n == "" {
			stamped[i] = node
			o.Stamped++
		}
	}
	return plain{outcome: o, names: stamped}
}

// callerFault is the first thing wrong with a caller, and the code that it is refused with.
func callerFault(r nodebinding.Rules, e nodebinding.Evidence) (nodebinding.Reason, nodebinding.Code) {
	onDeployment := r.Role == nodebinding.Deployment
	isListed := r.CrossNode.Has(e.Identity.Username)
	strict := !r.LenientLiveness
	rules := []struct {
		broken bool
		why    nodebinding.Reason
		code   nodebinding.Code
	}{
		{e.Credential == nodebinding.CredentialMalformed, nodebinding.MalformedCredentials, nodebinding.Unauthenticated},
		{e.Credential == nodebinding.CredentialUnusable, nodebinding.TokenInvalid, nodebinding.Unauthenticated},
		{e.Credential == nodebinding.CredentialAbsent && (onDeployment || r.RequireToken), nodebinding.TokenMissing, nodebinding.Unauthenticated},
		{e.Credential == nodebinding.CredentialAbsent, "", nodebinding.OK},
		{e.Review == nodebinding.Unauthenticated && strict && e.Detail == nodebinding.TokenExpired, nodebinding.TokenExpired, nodebinding.Unauthenticated},
		{e.Review == nodebinding.Unauthenticated && strict && e.Detail == nodebinding.PodNotLive, nodebinding.PodNotLive, nodebinding.Unauthenticated},
		{e.Review == nodebinding.Unauthenticated, nodebinding.TokenInvalid, nodebinding.Unauthenticated},
		{e.Review == nodebinding.Unavailable && strict && e.Detail == nodebinding.RateLimited, nodebinding.RateLimited, nodebinding.Unavailable},
		{e.Review == nodebinding.Unavailable, nodebinding.ValidatorUnavailable, nodebinding.Unavailable},
		{e.Review == nodebinding.DeadlineExceeded, nodebinding.ValidatorTimeout, nodebinding.DeadlineExceeded},
		{e.Review == nodebinding.Canceled, nodebinding.ValidatorTimeout, nodebinding.Canceled},
		{e.Review == nodebinding.Undecided, nodebinding.ValidatorError, nodebinding.Internal},
		{e.Review != nodebinding.OK, nodebinding.ValidatorError, e.Review},
		{e.Identity.Username == "", nodebinding.ValidatorError, nodebinding.Internal},
		{e.Identity.Node != "" && !onDeployment && e.Identity.Node != r.OwnNode, nodebinding.NodeClaimMismatch, nodebinding.PermissionDenied},
		{e.Identity.Node != "" && strict && e.LiveNodeUID != "" && e.Identity.NodeUID != e.LiveNodeUID, nodebinding.NodeUIDMismatch, nodebinding.PermissionDenied},
		{isListed && e.Identity.PodUID == "", nodebinding.UnboundCrossNodeToken, nodebinding.PermissionDenied},
		{isListed && e.Identity.Node == "", nodebinding.CrossNodeClaimAbsent, nodebinding.PermissionDenied},
		{onDeployment && !isListed && e.Identity.PodUID == "", nodebinding.UnboundToken, nodebinding.PermissionDenied},
		{onDeployment && !isListed && e.Identity.Node == "", nodebinding.NodeClaimAbsent, nodebinding.PermissionDenied},
		{onDeployment && !isListed && r.Publishers != nil && !r.Publishers.Has(e.Identity.Username), nodebinding.PublisherNotListed, nodebinding.PermissionDenied},
	}
	for _, rule := range rules {
		if rule.broken {
			return rule.why, rule.code
		}
	}
	return "", nodebinding.OK
}

// countedClaim is the node claim's result: of reviewed callers only, absent where there is none, verified where it passed,
// which on a deployment takes everything else to have passed too.
func countedClaim(r nodebinding.Rules, e nodebinding.Evidence, why nodebinding.Reason) nodebinding.Claim {
	switch {
	case e.Credential != nodebinding.CredentialPresented || e.Review != nodebinding.OK || e.Identity.Username == "":
		return ""
	case e.Identity.Node == "":
		return nodebinding.ClaimAbsent
	case why == nodebinding.NodeClaimMismatch || why == nodebinding.NodeUIDMismatch:
		return ""
	case r.Role == nodebinding.Deployment && why != "":
		return ""
	default:
		return nodebinding.ClaimVerified
	}
}
