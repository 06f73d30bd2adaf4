package provenance

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// maxLevels is how many parents may stand between an object and its submitter.
const maxLevels = 3

// maxName is the longest name that a token carries, in bytes.
const maxName = 512

// Kind is a row of jobKinds: a kind whose pods act for the object's submitter, and who creates them.
type Kind struct {
	GroupKind
	PodCreators []string
}

// Delegate is a row of delegatingControllers: a controller whose objects belong to the submitter of their parent.
type Delegate struct {
	Identity string
	Parents  []GroupKind
}

// Rules are what the platform has configured. The zero Rules confirm bare pods of persons without a volume's audience, which no
// pod has: nothing.
type Rules struct {
	Kinds      []Kind
	Delegating []Delegate
	// Submitters are the service accounts that may submit, by their usernames.
	Submitters []string
	// Audience is the subject token's.
	Audience string
}

// Guards are what is known of the policies at the time of asking. The zero Guards confirm nothing.
type Guards struct {
	// InOrder says that every policy was found as it must be by a read that began after the objects were read.
	InOrder bool
	// Epoch is the guard epoch, Since the time from which the namespace was managed. What is older than either is not
	// vouched for.
	Epoch metav1.Time
	Since metav1.Time
	// Managed says that the namespace is managed.
	Managed bool
	// Kinds are the job kinds and parents, with the time from which the policies were in force for objects of each: before, anybody
	// could give one any stamp, in any namespace. A kind that is absent is not vouched for; pods always are.
	Kinds map[GroupKind]metav1.Time
}

// vouched says whether an object of this age was made under the policies' eyes. Creation times are cut to whole seconds; an
// object of the very second of an epoch that is not whole counts as older.
func (g Guards) vouched(created metav1.Time) bool {
	return !created.IsZero() && !g.Epoch.IsZero() && !created.Time.Before(g.Epoch.Time) && !created.Time.Before(g.Since.Time)
}

// listed says whether an object's kind was listed when it was created, and has been ever since.
func (g Guards) listed(o Object) bool {
	if o.GroupKind == PodKind() {
		return true
	}
	since, ok := g.Kinds[o.GroupKind]
	return ok && !since.IsZero() && !o.Created.Time.Before(since.Time)
}

// Observed is how an object was seen by a read under these guards, which are in order. Since is the last of the times from which objects
// of its kind have been guarded in its namespace.
func (g Guards) Observed(o Object) delegation.Observation {
	seen := delegation.Observation{Generation: o.Generation, Since: g.Epoch.Time}
	for _, since := range []metav1.Time{g.Since, g.Kinds[o.GroupKind]} {
		if since.After(seen.Since) {
			seen.Since = since.Time
		}
	}
	return seen
}

// Stamped are the kinds whose stamps are believed, besides pods: the job kinds and the parents, each once.
func (r Rules) Stamped() []GroupKind {
	var all []GroupKind
	for _, k := range r.Kinds {
		all = append(all, k.GroupKind)
	}
	for _, d := range r.Delegating {
		all = append(all, d.Parents...)
	}
	slices.SortFunc(all, func(a, b GroupKind) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all)
}

// kind finds a job kind's row.
func (r Rules) kind(k GroupKind) (Kind, bool) {
	i := slices.IndexFunc(r.Kinds, func(row Kind) bool { return row.GroupKind == k })
	if i < 0 {
		return Kind{}, false
	}
	return r.Kinds[i], true
}

// delegates says whether an identity is a delegating controller, and for which parents.
func (r Rules) delegates(identity string) (parents []GroupKind, yes bool) {
	for _, d := range r.Delegating {
		if d.Identity == identity {
			parents, yes = append(parents, d.Parents...), true
		}
	}
	return parents, yes
}

// submitter says whether somebody may be a submitter: a person, or a service account on the list. Names in "system:" and
// "service:" are the platform's, in whatever case. The names of controllers that create pods or delegate are never a submitter's.
func (r Rules) submitter(name string) Reason {
	lower := strings.ToLower(name)
	platform := strings.HasPrefix(lower, "system:") || strings.HasPrefix(lower, "service:")
	_, delegate := r.delegates(name)
	creator := slices.ContainsFunc(r.Kinds, func(k Kind) bool { return slices.Contains(k.PodCreators, name) })
	switch {
	case name == "":
		return Unstamped
	case creator, delegate, platform && !slices.Contains(r.Submitters, name):
		return CreatorRefused
	case len(name) > maxName || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' }):
		return CreatorMalformed
	default:
		return ""
	}
}
