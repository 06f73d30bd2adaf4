package policy

import (
	"slices"
	"strings"
)

// Mode says what happens to a reserved name: refused (enforce) or let through with a warning and an audit event (audit).
// No other policy looks at it.
type Mode string

// The two modes of admission.mode.
const (
	Enforce Mode = "enforce"
	Audit   Mode = "audit"
)

// Kind is one row of the table of job kinds: a kind whose pods act for the person who created it.
type Kind struct {
	Group          string   `json:"group"`
	Kind           string   `json:"kind"`
	Resource       string   `json:"resource,omitempty"` // absent: the kind in lower case and an "s"
	PodCreators    []string `json:"podCreators"`        // usernames of the controllers that create its pods
	AdoptionLabels []string `json:"adoptionLabels"`     // pod labels that only those controllers write
}

// Controller is a controller that creates job kinds on behalf of a parent object: its username, and the parents
// ("group/Kind") whose creator the children belong to.
type Controller struct {
	Identity string   `json:"identity"`
	Parents  []string `json:"parents"`
	// Resources are the resource names of parents, by "group/Kind", as Kind.Resource is; a parent that has a row of Kinds needs none.
	Resources map[string]string `json:"resources,omitempty"`
}

// Settings are the facts that the policies hold as literals. The chart computes the same fields from its values. The order
// and repetition of names in a list change nothing; the order of Kinds and Delegating is the order of the rules.
type Settings struct {
	Mode               Mode         `json:"mode"`
	Jobs               bool         `json:"jobs"`               // false: the exchange is off, no creator stamp is demanded
	PublisherAudience  string       `json:"publisherAudience"`  // empty: the publisher role is off
	JobAudience        string       `json:"jobAudience"`        // empty: the job role is off
	JobTokenFile       string       `json:"jobTokenFile"`       // the value that Lanyard itself gives the token file variable
	Publishers         []string     `json:"publishers"`         // "namespace/serviceAccount"
	PublisherAccounts  []string     `json:"publisherAccounts"`  // usernames: cross-node publishers
	ReleaseAccounts    []string     `json:"releaseAccounts"`    // usernames: Lanyard's own programs
	TokenRequesters    []string     `json:"tokenRequesters"`    // usernames that may ask the token API for a protected audience
	Kinds              []Kind       `json:"kinds"`              // at least one when Jobs
	Delegating         []Controller `json:"delegating"`         // controllers that create job kinds for a parent
	Submitters         []string     `json:"submitters"`         // usernames of service accounts that may submit
	TemplateEditors    []string     `json:"templateEditors"`    // usernames that may change the templates of other people's work
	TemplatePaths      []string     `json:"templatePaths"`      // "group/Kind:spec.path": what P6 guards of a custom kind; none, or none that the object has: all of spec but suspend
	ExcludedNamespaces []string     `json:"excludedNamespaces"` // never managed, whatever their labels say; the release's own among them
	SocketConnector    string       `json:"socketConnector"`    // the socket connector's username; empty: not known, and not fenced
	ForeignConditions  []string     `json:"foreignConditions"`  // condition types that the socket connector leaves alone, besides the kubelet's
}

// resource is the kind's resource name, guessed from its kind when the row does not give one.
func (k Kind) resource() string {
	if k.Resource != "" {
		return k.Resource
	}
	return strings.ToLower(k.Kind) + "s"
}

// Resources are the resources that the policies match for the job kinds and their parents, by "group/Kind". Objects of such a kind
// that the API server serves under another name are not guarded.
func (s Settings) Resources() map[string]string {
	of := map[string]string{}
	for _, d := range s.Delegating {
		for _, p := range d.Parents {
			group, kind, _ := strings.Cut(p, "/")
			of[p] = s.parent(group, kind).resource()
		}
	}
	for _, k := range slices.Backward(s.Kinds) { // of two rows of a kind the first counts, as for parent
		of[k.name()] = k.resource()
	}
	return of
}

// name is the form in which kinds are compared: "group/Kind".
func (k Kind) name() string { return k.Group + "/" + k.Kind }
