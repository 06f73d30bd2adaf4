package nodebinding

import "slices"

// Reason is why a batch violates the node-binding rule. Its text is the label "reason" of
// platform_connector_auth_violations_total. The empty Reason is none and is not counted.
type Reason string

// The seed's reasons, in the seed's order.
const (
	// NodeMismatch: a node-local caller named a different node.
	NodeMismatch Reason = "node_mismatch"
	// NodeClaimMismatch: the token was issued on another node.
	NodeClaimMismatch Reason = "node_claim_mismatch"
	// UnboundCrossNodeToken: a listed caller's token is bound to no pod.
	UnboundCrossNodeToken Reason = "unbound_cross_node_token"
	// CrossNodeClaimAbsent: a listed caller's token is bound to a pod that was never scheduled.
	CrossNodeClaimAbsent Reason = "cross_node_claim_absent"
	// TokenMissing: the deployment role, or a socket with socket.requireToken, was called without a token.
	TokenMissing Reason = "token_missing"
	// UnboundToken: the deployment role was called with a token that is bound to no pod.
	UnboundToken Reason = "unbound_token"
	// NodeClaimAbsent: the deployment role was called with a token of a pod that was never scheduled.
	NodeClaimAbsent Reason = "node_claim_absent"
	// MissingNodeName: an event carried no node name and none could be stamped.
	MissingNodeName Reason = "missing_node_name"
	// TokenInvalid: the review refused the token, or it could not be one.
	TokenInvalid Reason = "token_invalid"
	// MalformedCredentials: the header was duplicated or does not hold one clean Bearer word.
	MalformedCredentials Reason = "malformed_credentials"
	// ValidatorUnavailable: the API server could not be reached.
	ValidatorUnavailable Reason = "validator_unavailable"
	// ValidatorTimeout: the review did not end in time.
	ValidatorTimeout Reason = "validator_timeout"
	// ValidatorError: the review went wrong in another way, or returned no identity.
	ValidatorError Reason = "validator_error"
)

// Lanyard's own reasons, beyond the seed's list.
const (
	// NodeUIDMismatch: the node was re-created under the same name since the token was issued.
	NodeUIDMismatch Reason = "node_uid_mismatch"
	// PodNotLive: the token's pod has been deleted or has ended.
	PodNotLive Reason = "pod_not_live"
	// TokenExpired: the token is past its end.
	TokenExpired Reason = "token_expired"
	// RateLimited: too many tokens of this connection have failed.
	RateLimited Reason = "rate_limited"
	// PublisherNotListed: the deployment role has a list of publishers, and the caller is not on it.
	PublisherNotListed Reason = "publisher_not_listed"
)

// Reasons lists every reason once, the seed's before ours, for metrics, documents and the tests that hold them together.
func Reasons() []Reason {
	return append(seeds(), NodeUIDMismatch, PodNotLive, TokenExpired, RateLimited, PublisherNotListed)
}

func seeds() []Reason {
	return []Reason{
		NodeMismatch, NodeClaimMismatch, UnboundCrossNodeToken, CrossNodeClaimAbsent, TokenMissing, UnboundToken,
		NodeClaimAbsent, MissingNodeName, TokenInvalid, MalformedCredentials, ValidatorUnavailable, ValidatorTimeout,
		ValidatorError,
	}
}

// Ours says whether the reason is Lanyard's own and not on the seed's list.
func (r Reason) Ours() bool { return r != "" && !slices.Contains(seeds(), r) }

// sentence tells a caller what is wrong and what to do instead. It is fixed: what the caller sent is never repeated.
func (r Reason) sentence() string {
	switch r {
	case NodeMismatch:
		return "names another node than the caller's own; leave the name out, or have the account listed in crossNodeServiceAccounts"
	case NodeClaimMismatch:
		return "the token was issued on another node; present it to that node's connector"
	case UnboundCrossNodeToken, UnboundToken:
		return "the token is bound to no pod; use a projected service account token"
	case CrossNodeClaimAbsent, NodeClaimAbsent:
		return "the token carries no node; it must come from a running pod on a scheduled node"
	case TokenMissing:
		return "a token is required; send the metadata authorization: Bearer <token>"
	case MissingNodeName:
		return "has no node name, and none can be guessed for a caller that may name any node; write nodeName into every event"
	case TokenInvalid:
		return "the token was refused; present the one that is projected into the caller's pod for this connector's audience"
	case MalformedCredentials:
		return "the metadata authorization must hold exactly one value of the form Bearer <token>"
	case ValidatorUnavailable:
		return "the token cannot be checked at the moment; try again"
	case ValidatorTimeout:
		return "the token could not be checked in time; try again"
	case ValidatorError:
		return "tokens cannot be checked here; the connector's operator finds the cause in its log"
	case NodeUIDMismatch:
		return "the token was issued before the node was created anew; read the token file again"
	case PodNotLive:
		return "the token's pod has ended; present the token of a pod that runs"
	case TokenExpired:
		return "the token has expired; read the token file again"
	case RateLimited:
		return "too many tokens of this connection were refused; try again later"
	case PublisherNotListed:
		return "the caller's account is not on the connector's list of publishers; have it listed there"
	default:
		return "the call could not be decided"
	}
}
