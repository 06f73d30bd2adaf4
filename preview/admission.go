package preview

import (
	"fmt"
	"slices"

	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
)

// maxCalls bounds how often the mutating entries are called for a pod: once, and once more as the API server does when
// a later entry changed the object (reinvocationPolicy IfNeeded).
const maxCalls = 2

// admission follows one document through the webhook.
type admission struct {
	Previewer
	document  Document
	namespace string
	object    []byte // as it stands after what was added so far
	found     findings
}

// findings gather what the decisions said.
type findings struct {
	patch      []mutate.Op
	violations []violation.Violation
	warnings   []string
	notes      []string
	roles      []mutate.Role
	more       int
	denied     bool
}

// add takes a decision over; at puts the field paths of its violations and warnings where they belong in the document. The
// patch is not taken, since whoever applies it knows where.
func (f *findings) add(d mutate.Decision, at func(path string) string) {
	f.denied = f.denied || !d.Outcome.Allows()
	for _, v := range d.Violations {
		v.Field = at(v.Field)
		same := func(o violation.Violation) bool { return o.Reason == v.Reason && o.Field == v.Field }
		if !slices.ContainsFunc(f.violations, same) {
			f.violations = append(f.violations, v)
		}
	}
	f.more = max(f.more, d.More)
	for _, warning := range d.Warnings {
		f.warnings = union(f.warnings, []string{at(warning)})
	}
	f.roles = union(f.roles, d.Roles)
}

func union[T comparable](list, more []T) []T {
	for _, v := range more {
		if !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

func here(field string) string { return field }

// pod follows a pod.
func (a *admission) pod() error {
	entries := a.entries(a.object)
	if len(entries) == 0 {
		a.found.notes = append(a.found.notes, "no entry of the webhook is called for this pod")
		return nil
	}
	out, err := a.admitPod(a.object, a.Username, entries, here)
	if err != nil {
		return err
	}
	a.object = out.object
	a.found.patch = out.patch
	return nil
}

// admitted is a pod behind the webhook's mutating entries, with the operations that led there.
type admitted struct {
	object []byte
	patch  []mutate.Op
}

// admitPod calls the mutating entries and then the validating ones, as the API server does. The violations of all are
// gathered: a person wants to mend everything at once.
func (a *admission) admitPod(raw []byte, username string, entries []mutate.Entry, at func(string) string) (admitted, error) {
	out := admitted{object: raw}
	request := mutate.Request{Operation: mutate.Create, Kind: podKind, Namespace: a.namespace, Username: username}
	for range maxCalls {
		before := len(out.patch)
		for _, entry := range entries {
			request.Entry, request.Object = entry, out.object
			d, err := mutate.Pod(request, a.Rules)
			if err != nil {
				return out, fmt.Errorf("reading the pod: %w", err)
			}
			a.found.add(d, at)
			if err := out.apply(d); err != nil {
				return out, err
			}
		}
		if len(out.patch) == before {
			break
		}
	}
	return out, a.verify(request, out.object, entries, at)
}

// apply adds what a decision adds.
func (o *admitted) apply(d mutate.Decision) error {
	if !d.Outcome.Allows() || len(d.Patch) == 0 {
		return nil
	}
	object, err := applyPatch(o.object, d.Patch)
	if err != nil {
		return err
	}
	o.object = object
	o.patch = append(o.patch, d.Patch...)
	return nil
}

// verify calls the validating entries on the final pod. That a refused pod carries no token is no news of its own.
func (a *admission) verify(request mutate.Request, final []byte, entries []mutate.Entry, at func(string) string) error {
	refused := a.found.denied
	for _, entry := range entries {
		request.Entry, request.Object = entry, final
		d, err := mutate.Verify(request, a.Rules)
		if err != nil {
			return fmt.Errorf("verifying the pod: %w", err)
		}
		if refused {
			d.Violations = slices.DeleteFunc(slices.Clone(d.Violations), func(v violation.Violation) bool {
				return v.Reason == violation.NotInjected || v.Reason == violation.EnvFromOpen
			})
		}
		a.found.add(d, at)
	}
	return nil
}

// result puts the answer together.
func (a *admission) result() Result {
	violation.Sort(a.found.violations)
	r := Result{
		Document: a.document, Verdict: Unchanged, Roles: a.found.roles, After: a.object,
		Patch: a.found.patch, Violations: a.found.violations, More: a.found.more, Warnings: a.found.warnings, Notes: a.found.notes,
	}
	switch {
	case a.found.denied:
		r.Verdict, r.After, r.Patch = Refused, a.document.Raw, nil
	case len(r.Patch) > 0:
		r.Verdict = Changed
	}
	return r
}
