// Package mutate decides, from a pod and the rules alone, which additions make the pod carry the right tokens, and whether
// a finished pod carries exactly those and nothing under the platform's names that somebody else wrote. It reads raw JSON
// and writes RFC 6902 `add` operations by hand, so that fields newer than any API type survive byte for byte.
package mutate

import (
	"encoding/json"

	"github.com/lanyard-k8s/lanyard/mutate/violation"
)

// Mode says what happens to violations that admission.mode may loosen. The zero value is refused by Rules.Validate.
type Mode string

const (
	// Enforce refuses every violation.
	Enforce Mode = "enforce"
	// Audit lets the loosened reasons through with warnings and the same counters.
	Audit Mode = "audit"
)

// Role is what a pod is injected as; its text is the metric label and a part of label lanyard.dev/injected.
type Role string

const (
	// Publisher reports health events to the connector.
	Publisher Role = "publisher"
	// Job acts for the person who submitted it.
	Job Role = "job"
)

// Entry is the webhook entry through which a request came; the path is the proof of what its namespace is entitled to.
type Entry string

const (
	// EntryJob: the namespace is labelled lanyard.dev/jobs=managed.
	EntryJob Entry = "job"
	// EntryPublisher: the namespace is labelled lanyard.dev/publishers=enabled and the pod asks for the role.
	EntryPublisher Entry = "publisher"
	// EntryListed: (namespace, service account) is on the publishers list.
	EntryListed Entry = "listed"
	// EntryTemplate: a workload object with pod templates in a managed namespace.
	EntryTemplate Entry = "template"
)

// GroupKind names an API kind without its version, for example {batch Job}.
type GroupKind struct {
	Group string
	Kind  string
}

// Token is one projected token: its audience, its lifetime in seconds and the directory it is mounted at.
type Token struct {
	Audience             string
	ExpirationSeconds    int64
	MaxExpirationSeconds int64
	MountPath            string
}

// PublisherRules say what a publisher pod gets. CAConfigMap, when not empty, adds the CA volume and variable (deployment
// role). CrossNode holds the canonical usernames that may name other nodes; it only drives a warning.
type PublisherRules struct {
	Token
	Listed      []string // "namespace/serviceAccount"
	CAConfigMap string
	CrossNode   []string
}

// JobRules say what a managed job pod gets. Kinds are the kinds whose pods act for their submitters.
type JobRules struct {
	Token
	BaseURL     string
	CAConfigMap string
	Kinds       []GroupKind
}

// Rules are everything a decision needs besides the request. A nil Publisher or Job means that role is switched off.
type Rules struct {
	Mode             Mode
	StrictNames      bool
	ProtectEndpoints bool
	SkipContainers   []string
	Publisher        *PublisherRules
	Job              *JobRules
	DocsURL          string // where messages say to read more
}

// Operation is the verb of an admission request.
type Operation string

// The operations that a request may carry.
const (
	Create Operation = "CREATE"
	Update Operation = "UPDATE"
)

// Request is the part of an admission request that a decision may read. Namespace is the request's own, never the
// object's. Object and OldObject are raw JSON; they must not change for as long as the decision is used, whose texts may be parts of them.
type Request struct {
	Entry       Entry
	Operation   Operation
	Kind        GroupKind
	Subresource string
	Namespace   string
	Username    string
	Groups      []string
	Object      []byte
	OldObject   []byte
}

// Op is one RFC 6902 operation. Op is always "add".
type Op struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value"`
}

// Outcome is what was decided; its text is the metric label. The zero value is "not decided" and never allows.
type Outcome string

const (
	// Injected: the patch adds a token.
	Injected Outcome = "injected"
	// Already: every token is there; the patch, if any, adds no more than labels and annotations.
	Already Outcome = "already"
	// Stamped: the patch writes or restores the creator stamp (and tombstones) alone.
	Stamped Outcome = "stamped"
	// Skipped: the request asks for nothing of ours and breaks no rule.
	Skipped Outcome = "skipped"
	// Allowed: a validating entry found nothing wrong.
	Allowed Outcome = "allowed"
	// Audited: violations were found and let through by mode audit.
	Audited Outcome = "audited"
	// Denied: at least one violation refuses the request.
	Denied Outcome = "denied"
)

// Allows says whether the request goes through. Unknown outcomes, the zero value among them, do not.
func (o Outcome) Allows() bool {
	switch o {
	case Injected, Already, Stamped, Skipped, Allowed, Audited:
		return true
	default:
		return false
	}
}

// MaxViolations bounds how many violations a decision keeps; an object of a few megabytes can hold a hundred thousand.
const MaxViolations = 500

// Decision is the answer to a request: an outcome, the patch (mutating entries only), the violations found (also in mode
// audit), warnings for the person, the roles that apply to the pod and the audiences they carry. Violations are sorted by
// path; More counts those beyond MaxViolations.
type Decision struct {
	Outcome    Outcome
	Patch      []Op
	Violations []violation.Violation
	More       int
	Warnings   []string
	Roles      []Role
	Audiences  []string
}
