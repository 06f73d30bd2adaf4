package mutate

import (
	"slices"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate/manifest"
)

// standing is what a pod is to the role of the entry that it came through.
type standing uint8

const (
	// outsider: the pod has no right to the role's token.
	outsider standing = iota
	// possible: a template whose pods' role cannot be told from here; only what is wrong either way is held against it.
	possible
	// entitled: the pod gets the token, and is refused without it.
	entitled
)

// standingOf decides whether the pod carries the entry's role. It reads the request and its entry, never the object's
// namespace: labels select here, and connector and exchange authorise later from verified claims.
func (r *Rules) standingOf(q *Request, m *manifest.Meta, s *manifest.Spec) standing {
	switch q.Entry {
	case EntryJob:
		if r.jobPod(m) {
			return entitled
		}
	case EntryPublisher:
		if role, _ := m.Labels.Get(wire.LabelRole); role == wire.RolePublisher {
			return entitled
		}
	case EntryListed:
		if r.listed(q.Namespace, s.ServiceAccountName) {
			return entitled
		}
	case EntryTemplate:
		return r.templateStanding(q.Kind, m)
	}
	return outsider
}

// jobPod says whether a pod of a managed namespace has an identity: it is bare or controlled by a configured kind, and
// does not ask to have none.
func (r *Rules) jobPod(m *manifest.Meta) bool {
	if role, _ := m.Labels.Get(wire.LabelRole); role == wire.RoleNone {
		return false
	}
	owner := m.Controller()
	return owner == nil || r.jobKind(GroupKind{Group: owner.Group(), Kind: owner.Kind})
}

func (r *Rules) jobKind(k GroupKind) bool {
	return r.Job != nil && slices.Contains(r.Job.Kinds, k)
}

// templateStanding says what the pods of a template will be. Kinds of group apps never make job pods unless configured;
// what a custom kind makes of its templates is not known here.
func (r *Rules) templateStanding(k GroupKind, m *manifest.Meta) standing {
	role, _ := m.Labels.Get(wire.LabelRole)
	batchJob := GroupKind{Group: "batch", Kind: "Job"}
	switch {
	case role == wire.RoleNone:
		return outsider
	case r.jobKind(k), k == GroupKind{Group: "batch", Kind: "CronJob"} && r.jobKind(batchJob), k == GroupKind{Kind: "Pod"}:
		return entitled
	case k.Group == "apps", k.Group == "batch", k == GroupKind{Kind: "ReplicationController"}:
		return outsider
	default:
		return possible
	}
}

// listed says whether (namespace, service account) is on the publishers list. A pod without a service account runs as
// "default".
func (r *Rules) listed(namespace, account string) bool {
	if r.Publisher == nil {
		return false
	}
	if account == "" {
		account = "default"
	}
	for _, entry := range r.Publisher.Listed {
		if len(entry) == len(namespace)+1+len(account) && entry[:len(namespace)] == namespace &&
			entry[len(namespace)] == '/' && entry[len(namespace)+1:] == account {
			return true
		}
	}
	return false
}

// crossNode says whether the pod's account may name any node; such an account may project the publisher's audience.
func (r *Rules) crossNode(namespace, account string) bool {
	if r.Publisher == nil || len(r.Publisher.CrossNode) == 0 {
		return false
	}
	if account == "" {
		account = "default"
	}
	return slices.Contains(r.Publisher.CrossNode, "system:serviceaccount:"+namespace+":"+account)
}

// mirror says whether the request is a kubelet's for the mirror of a static pod. Anybody may write the annotation, so it
// counts only from a node.
func mirror(q *Request, m *manifest.Meta) bool {
	_, annotated := m.Annotations.Get(wire.AnnotationMirror)
	return annotated && slices.Contains(q.Groups, "system:nodes")
}

// managed says whether an entry is reached from managed namespaces only.
func (e Entry) managed() bool { return e == EntryJob || e == EntryTemplate }
