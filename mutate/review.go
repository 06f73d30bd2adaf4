package mutate

import (
	"hash/maphash"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate/manifest"
	"github.com/lanyard-k8s/lanyard/mutate/reserved"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
)

// review is one look at one pod or template. It gathers at the same time what is wrong and what is missing, so that the
// mutating entry, the validating entry and the preview can never disagree: the first adds what is missing, the second
// refuses it.
type review struct {
	rules    *Rules
	req      *Request
	pod      *manifest.Pod
	gear     *gear // nil when the entry's role is switched off
	standing standing
	base     string // field path of the template, with its dot; empty for a pod
	baseKey  string // base without indices, which an edit may shift
	targets  targets
	windows  bool
	blocked  bool // a conflict keeps the role's token out; only mode audit gets further
	*ledger

	missing missing
}

// missing is what the pod lacks of what the role gives it, and of the empty entries that close envFrom.
type missing struct {
	token      bool // the token's volume
	ca         bool // the CA's volume
	containers []lack
}

// lack is what one container lacks.
type lack struct {
	seat   seat
	env    []reserved.Own
	mounts []manifest.Mount
	tombs  []string
}

// ledger collects violations and warnings across the pods of one object. In a first round over the old object it only
// learns; in the second it forgives, one for one, what it learnt.
type ledger struct {
	seed     maphash.Seed
	learning bool
	known    map[uint64]int
	found    []violation.Violation
	more     int
	notes    notes
}

// spot is a place in an object: its field path, and a key of names that stays the same when an edit shifts an index.
type spot struct {
	field string
	key   string
}

// file notes a violation, unless the old object already had it.
func (l *ledger) file(reason violation.Reason, at spot, message string) {
	if l.old(string(reason), at.key) {
		return
	}
	if len(l.found) >= MaxViolations {
		l.more++
		return
	}
	l.found = append(l.found, violation.Violation{Reason: reason, Field: at.field, Message: message})
}

// old says whether a finding was in the old object too. Each finding there excuses one in the new object.
func (l *ledger) old(what, key string) bool {
	if !l.learning && l.known == nil {
		return false
	}
	var h maphash.Hash
	h.SetSeed(l.seed)
	h.WriteString(what)
	h.WriteByte(0)
	h.WriteString(key)
	sum := h.Sum64()
	if l.learning {
		if l.known == nil {
			l.known = map[uint64]int{}
		}
		l.known[sum]++
		return true
	}
	if l.known[sum] == 0 {
		return false
	}
	l.known[sum]--
	return true
}

// newReview prepares a look at one pod or template; the ledger keeps what it finds.
func newReview(rules *Rules, req *Request, pod *manifest.Pod, base, baseKey string, l *ledger) *review {
	v := &review{rules: rules, req: req, pod: pod, base: base, baseKey: baseKey, ledger: l}
	v.gear = rules.gearFor(req.Entry)
	v.windows = windows(&pod.Spec)
	return v
}

// look reviews the pod.
func (v *review) look() {
	if v.gear != nil {
		v.standing = v.rules.standingOf(v.req, &v.pod.Meta, &v.pod.Spec)
	}
	v.metadata()
	v.volumes()
	v.eachContainer(v.container)
	v.finish()
}

// identity says whether the pod is to carry the role's token: it is entitled and at least one container takes it.
func (v *review) identity() bool {
	return v.standing == entitled && v.targets.any && !v.blocked
}

// finish draws the conclusions that need the whole pod.
func (v *review) finish() {
	if v.standing == entitled && v.targets.any && v.windows {
		v.file(violation.Windows, v.at("spec.os", "windows"), sayWindows(v.gear.role))
	}
	v.advise()
	v.settle()
}

// at is a spot of the pod below its base.
func (v *review) at(field, key string) spot {
	return spot{field: v.base + field, key: v.baseKey + key}
}

// label returns the value of a pod's label, empty when it has none.
func (v *review) label(key string) string {
	value, _ := v.pod.Meta.Labels.Get(key)
	return value
}

// windows says whether a pod is for Windows nodes: by spec.os, which decides where it is set, by its node selector, by its
// required node affinity, or by Windows options in a security context.
func windows(s *manifest.Spec) bool {
	if s.OS != "" {
		return s.OS == "windows"
	}
	return s.NodeOS == "windows" || (s.NodeOS == "" && (s.WindowsAffinity || s.WindowsOptions))
}

// publishes says whether the pod may be a publisher as far as this entry can see; the policies in the API server know the
// namespace's labels and settle the rest.
func (v *review) publishes() bool {
	return v.label(wire.LabelRole) == wire.RolePublisher ||
		v.rules.listed(v.req.Namespace, v.pod.Spec.ServiceAccountName)
}
