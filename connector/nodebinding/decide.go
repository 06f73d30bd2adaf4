package nodebinding

// Rules are what the connector was started with.
type Rules struct {
	// Role decides whether there is a node to fall back on.
	Role Role
	// OwnNode is NODE_NAME. The socket role needs it; the deployment role takes each caller's node from its token.
	OwnNode string
	// CrossNode are the accounts that may name other nodes (AuthCrossNodeServiceAccounts).
	CrossNode Accounts
	// RequireToken refuses callers of the socket role who present no token, whom the seed pins to the node
	// (socket.requireToken). The deployment role requires one always.
	RequireToken bool
	// FailOpen is AuthFailOpenOnUnavailable. The deployment role has nothing to fall back on and ignores it.
	FailOpen bool
	// Publishers are the accounts that may call the deployment role at all. Nil means that the list is not given, and
	// every account may; an empty list means that none may but those of CrossNode.
	Publishers Accounts
	// LenientLiveness is strictLiveness: false. It turns NodeUIDMismatch and PodNotLive off, and counts TokenExpired and
	// RateLimited under the seed's reasons.
	LenientLiveness bool
}

// Evidence is what is known about a caller. Review and what follows it count only for a CredentialPresented.
type Evidence struct {
	// Credential is what ReadHeader found.
	Credential Credential
	// Review is how the token's review ended: OK, or the code of its error.
	Review Code
	// Detail may make a failed review more exact: TokenExpired or PodNotLive with Unauthenticated, RateLimited with
	// Unavailable. Any other Detail is ignored.
	Detail Reason
	// Identity is who the review says the caller is.
	Identity Identity
	// LiveNodeUID is the UID of the live Node that Identity.Node names, empty when that is not known.
	LiveNodeUID string
}

// Identity is a verified caller. Empty fields are claims that the token does not carry.
type Identity struct {
	Username string // canonical, as the review reports it
	PodUID   string // the pod that the token is bound to
	Node     string // the node that the pod runs on
	NodeUID  string
}

// Decision is what a caller may do, before anybody looked at its batch.
type Decision struct {
	// Role is the connector's.
	Role Role
	// Scope is what the caller may name; empty means refused.
	Scope Scope
	// Degraded marks a scope that is a guess because the review was unavailable (failOpenOnUnavailable).
	Degraded bool
	// Node is the node that a node-local caller is pinned to, and that blank names are stamped with.
	Node string
	// Claim is to be counted when not empty.
	Claim Claim
	// Violation is to be counted when not empty, even if the caller was let through.
	Violation Reason
	// Code is OK, or what a refusal is answered with.
	Code Code
	// Outage marks an Unavailable that says nothing about the caller, but that the review's backend is out of reach.
	Outage bool
}

// Decide says which scope a caller gets: malformed header, missing token, review, provenance and attestation, in this order.
// The first fault ends it.
func Decide(r Rules, e Evidence) Decision {
	d := Decision{Role: r.Role}
	switch {
	case r.Role == Socket && r.OwnNode != "":
		d.Node = r.OwnNode
	case r.Role != Deployment:
		return d // no role, or a socket without a node: undecided, which is refused
	}
	switch e.Credential {
	case CredentialMalformed:
		return d.refuse(MalformedCredentials, Unauthenticated)
	case CredentialUnusable:
		return d.refuse(TokenInvalid, Unauthenticated)
	case CredentialAbsent:
		if r.Role == Deployment || r.RequireToken {
			return d.refuse(TokenMissing, Unauthenticated)
		}
		return d.grant(NodeLocal)
	case CredentialPresented:
		if e.Review != OK {
			return d.unreviewed(r, e)
		}
		return d.reviewed(r, e)
	default:
		return d
	}
}

// unreviewed decides about a token that the review did not accept.
func (d Decision) unreviewed(r Rules, e Evidence) Decision {
	detail := e.Detail
	if r.LenientLiveness {
		detail = ""
	}
	switch e.Review {
	case Unauthenticated:
		if detail != TokenExpired && detail != PodNotLive {
			detail = TokenInvalid
		}
		return d.refuse(detail, Unauthenticated)
	case Unavailable:
		d.Outage = true
		if detail == RateLimited {
			return d.refuse(RateLimited, Unavailable) // the caller brought it about; it earns no scope
		}
		return d.fallBack(r, ValidatorUnavailable, Unavailable)
	case DeadlineExceeded, Canceled:
		return d.fallBack(r, ValidatorTimeout, e.Review)
	case Undecided:
		return d.refuse(ValidatorError, Internal)
	default:
		return d.refuse(ValidatorError, e.Review)
	}
}

// fallBack degrades a caller of the socket to its own node where the rules say so, and refuses it otherwise.
func (d Decision) fallBack(r Rules, why Reason, code Code) Decision {
	if !r.FailOpen || r.Role != Socket {
		return d.refuse(why, code)
	}
	d.Violation, d.Degraded, d.Outage = why, true, false
	return d.grant(NodeLocal)
}

// reviewed decides about a caller whose token was accepted: where was it issued, and what is it bound to.
func (d Decision) reviewed(r Rules, e Evidence) Decision {
	id := e.Identity
	if id.Username == "" {
		return d.refuse(ValidatorError, Internal)
	}
	switch {
	case id.Node == "":
		d.Claim = ClaimAbsent
	case r.Role == Socket && id.Node != r.OwnNode:
		return d.refuse(NodeClaimMismatch, PermissionDenied)
	case !r.LenientLiveness && e.LiveNodeUID != "" && e.LiveNodeUID != id.NodeUID:
		return d.refuse(NodeUIDMismatch, PermissionDenied)
	case r.Role == Socket:
		d.Claim = ClaimVerified
	}
	listed := r.CrossNode.Has(id.Username)
	if why := unattested(r, id, listed); why != "" {
		return d.refuse(why, PermissionDenied)
	}
	if r.Role == Deployment {
		d.Claim, d.Node = ClaimVerified, id.Node
	}
	if listed {
		return d.grant(CrossNode)
	}
	return d.grant(NodeLocal)
}

// unattested says what a token lacks, or nothing. Listed callers, and all callers of the deployment role, must run in a
// pod on a scheduled node; a token that is bound to a node alone is bound to no pod.
func unattested(r Rules, id Identity, listed bool) Reason {
	switch {
	case !listed && r.Role == Socket:
		return ""
	case id.PodUID == "" && listed:
		return UnboundCrossNodeToken
	case id.PodUID == "":
		return UnboundToken
	case id.Node == "" && listed:
		return CrossNodeClaimAbsent
	case id.Node == "":
		return NodeClaimAbsent
	case !listed && r.Publishers != nil && !r.Publishers.Has(id.Username):
		return PublisherNotListed
	default:
		return ""
	}
}

func (d Decision) grant(s Scope) Decision {
	d.Scope, d.Code = s, OK
	return d
}

func (d Decision) refuse(why Reason, code Code) Decision {
	d.Scope, d.Violation, d.Code = "", why, code
	return d
}
