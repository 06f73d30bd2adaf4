package mutate

import (
	"fmt"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate/manifest"
)

// Stamp answers the stamp's entries for stamped kinds other than pods: on CREATE it writes who the API server says is
// asking, over whatever the client wrote; on UPDATE it puts the old object's stamp back, so that a replace or a re-applied
// export does not run into the policy that keeps stamps unchanged. A stamp that the old object lacks is left to that
// policy, since a patch of ours only adds. What Template refuses on CREATE is refused here already: policies answer before
// validating webhooks do, and know neither every rule nor the index of a field. An error means that the request is malformed.
func Stamp(req Request, rules Rules) (Decision, error) {
	if req.Operation == Create && req.Subresource == "" {
		early := req
		early.Entry = EntryTemplate
		if d, err := Template(early, rules); err != nil || d.Outcome == Denied {
			return d, err
		}
	}
	m, err := manifest.DecodeMeta(req.Object)
	if err != nil {
		return Decision{}, fmt.Errorf("reading object: %w", err)
	}
	stamp, err := wanted(&req)
	if err != nil {
		return Decision{}, err
	}
	if have, ok := m.Annotations.Get(wire.AnnotationCreatedBy); stamp == "" || (ok && have == stamp) {
		return Decision{Outcome: Skipped}, nil
	}
	var p patch
	p.metadata(&m, nil, []member{{wire.AnnotationCreatedBy, stamp}})
	return Decision{Outcome: Stamped, Patch: p.ops}, nil
}

// wanted is the stamp that the object should bear, empty when there is nothing to write.
func wanted(req *Request) (string, error) {
	switch {
	case req.Subresource != "":
		return "", nil
	case req.Operation == Create && req.Username == "":
		return "", ErrNoUser
	case req.Operation == Create:
		return req.Username, nil
	case req.Operation == Update && req.Kind != (GroupKind{Kind: "Pod"}):
		old, err := manifest.DecodeMeta(req.OldObject)
		if err != nil {
			return "", fmt.Errorf("reading old object: %w", err)
		}
		stamp, _ := old.Annotations.Get(wire.AnnotationCreatedBy)
		return stamp, nil
	default:
		return "", nil
	}
}
