package mutate

import (
	"fmt"
	"hash/maphash"

	"github.com/lanyard-k8s/lanyard/mutate/manifest"
)

// Verify answers the validating entries for a finished pod: whether it carries exactly what Pod would have written and
// nothing of anybody else's under the platform's names. On UPDATE (ephemeral containers) only what the update adds counts,
// since a pod made before Lanyard came must stay debuggable. An error means that the request is malformed.
func Verify(req Request, rules Rules) (Decision, error) {
	pod, err := manifest.Decode(req.Object)
	if err != nil {
		return Decision{}, fmt.Errorf("reading pod: %w", err)
	}
	l := &ledger{}
	if req.Operation == Update && len(req.OldObject) > 0 {
		old, err := manifest.Decode(req.OldObject)
		if err != nil {
			return Decision{}, fmt.Errorf("reading old pod: %w", err)
		}
		l.learn(func() { verify(&rules, &req, &old, l) })
	}
	if mirror(&req, &pod.Meta) {
		return Decision{Outcome: Allowed}, nil
	}
	return verify(&rules, &req, &pod, l).decide(), nil
}

// verify reviews a pod and files what it lacks besides what is wrong with it.
func verify(rules *Rules, req *Request, pod *manifest.Pod, l *ledger) *review {
	v := newReview(rules, req, pod, "", "", l)
	v.look()
	v.absent()
	return v
}

// learn runs a review over the old object, whose findings are then forgiven.
func (l *ledger) learn(review func()) {
	l.seed = maphash.MakeSeed()
	l.learning = true
	review()
	l.learning = false
	l.notes = notes{}
}
