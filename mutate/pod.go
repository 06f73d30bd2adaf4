package mutate

import (
	"errors"
	"fmt"

	"github.com/lanyard-k8s/lanyard/mutate/manifest"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
)

// ErrNoUser says that a request from a managed namespace names nobody whose stamp could be written.
var ErrNoUser = errors.New("the request names no user")

// Pod answers the mutating entries for a pod: the additions that give it its token, close its envFrom and stamp its
// creator, or the violations that keep it out. Requests other than CREATE, and subresources, get nothing. An error means
// that the request is malformed.
func Pod(req Request, rules Rules) (Decision, error) {
	pod, err := manifest.Decode(req.Object)
	if err != nil {
		return Decision{}, fmt.Errorf("reading pod: %w", err)
	}
	if req.Operation != Create || req.Subresource != "" {
		return Decision{Outcome: Skipped}, nil
	}
	if req.Entry == EntryJob && req.Username == "" {
		return Decision{}, ErrNoUser
	}
	v := newReview(&rules, &req, &pod, "", "", &ledger{})
	if mirror(&req, &pod.Meta) {
		v.standing = outsider
		return v.patched(Decision{}), nil
	}
	v.look()
	d := v.decide()
	if d.Outcome == Denied {
		return d, nil
	}
	return v.patched(d), nil
}

// patched writes the patch and says what it amounts to.
func (v *review) patched(d Decision) Decision {
	var p patch
	v.spec(&p)
	adds := v.missing.token
	for i := range v.missing.containers {
		adds = adds || len(v.missing.containers[i].mounts)+len(v.missing.containers[i].env) > 0
	}
	labels, annotations := v.marks()
	p.metadata(&v.pod.Meta, labels, annotations)
	d.Patch = p.ops
	switch {
	case d.Outcome == Audited:
	case adds:
		d.Outcome = Injected
	case len(d.Roles) > 0:
		d.Outcome = Already
	case len(p.ops) > 0:
		d.Outcome = Stamped
	default:
		d.Outcome = Skipped
	}
	return d
}

// decide turns what was found into an outcome, not yet saying what a patch adds.
func (v *review) decide() Decision {
	d := v.ledger.decide(v.rules)
	if v.identity() && !v.windows {
		d.Roles = []Role{v.gear.role}
		d.Audiences = []string{v.gear.token.Audience}
	}
	return d
}

// decide weighs the violations by the rules' mode and writes the warnings. Anything but mode audit refuses.
func (l *ledger) decide(rules *Rules) Decision {
	d := Decision{Outcome: Allowed, Violations: l.found, More: l.more}
	violation.Sort(d.Violations)
	var audited []violation.Violation
	switch {
	case l.refuses(rules):
		d.Outcome = Denied
	case len(l.found) > 0:
		d.Outcome = Audited
		audited = d.Violations
	}
	d.Warnings = l.notes.lines(audited)
	return d
}

// refuses says whether any violation stands in the way. Violations beyond the bound were not kept, so their reasons are not
// known: they refuse.
func (l *ledger) refuses(rules *Rules) bool {
	if l.more > 0 {
		return true
	}
	for i := range l.found {
		if rules.Mode != Audit || !l.found[i].Reason.Loosened() {
			return true
		}
	}
	return false
}
