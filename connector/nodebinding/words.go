package nodebinding

// Role is how the connector runs. The zero Role refuses every call.
type Role string

// The roles, by the text of the flag --role.
const (
	// Socket serves the publishers of one node over a Unix socket.
	Socket Role = "socket"
	// Deployment serves all nodes over TLS. It has no node of its own, so every caller must bring one in its token.
	Deployment Role = "deployment"
)

// Mode is what happens after a violation was found. Any other text than these enforces.
type Mode string

// The modes. Enforce and Audit are the texts of AuthMode.
const (
	// Enforce refuses a batch that violates the rule.
	Enforce Mode = "enforce"
	// Audit counts the violation and lets the batch through. It is for the socket role alone.
	Audit Mode = "audit"
	// Disabled means enableNodeBindingAuth: false. Nothing is looked at, counted or stamped. The socket role alone.
	Disabled Mode = "disabled"
)

// Scope is what a caller may name; its text is the label "decision" of platform_connector_auth_decisions_total. The zero
// Scope grants nothing.
type Scope string

// The scopes.
const (
	// NodeLocal pins a caller to one node.
	NodeLocal Scope = "node_local"
	// CrossNode lets a caller name any node.
	CrossNode Scope = "cross_node"
)

// Scopes lists every scope once, for metrics and documents.
func Scopes() []Scope { return []Scope{NodeLocal, CrossNode} }

// Claim is what the token's node claim was worth; its text is the label "result" of platform_connector_auth_node_claim_total.
// The zero Claim is not counted.
type Claim string

// The results.
const (
	// ClaimVerified: the claim names the node that the caller is pinned to.
	ClaimVerified Claim = "verified"
	// ClaimAbsent: the token carries no node claim.
	ClaimAbsent Claim = "absent"
)

// Claims lists every result once, for metrics and documents.
func Claims() []Claim { return []Claim{ClaimVerified, ClaimAbsent} }

// Credential is what the authorization header holds. The zero Credential means that nobody looked, and is refused.
type Credential uint8

// What a header can hold.
const (
	// CredentialAbsent: there is no such header.
	CredentialAbsent Credential = iota + 1
	// CredentialMalformed: there is one, and it does not hold exactly one clean Bearer word.
	CredentialMalformed
	// CredentialUnusable: a clean word that cannot be a service account's token.
	CredentialUnusable
	// CredentialPresented: a word that is worth a review.
	CredentialPresented
)
