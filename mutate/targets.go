package mutate

import (
	"slices"
	"strings"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate/manifest"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
)

// targets are the containers that get the token. Names are unique across a pod's lists.
type targets struct {
	names   []string
	any     bool // at least one container of the pod is a target
	stamped bool // the list stands in the role's annotation already
}

func (t *targets) has(name string) bool { return slices.Contains(t.names, name) }

// choose decides which containers get the token: the list that was used when the pod was first seen, so that containers
// added later never do; else the author's allow-list; else every app container and native sidecar but the skipped ones.
func (v *review) choose() {
	m := &v.pod.Meta
	stamp, stamped := m.Annotations.Get(v.gear.listKey)
	allow, allowed := m.Annotations.Get(wire.AnnotationContainers)
	switch {
	case stamped:
		v.targets.names = v.namesIn(v.gear.listKey, stamp)
		v.targets.stamped = true
		if allowed && !sameSet(v.targets.names, splitNames(allow)) {
			v.file(violation.Metadata, v.annotation(wire.AnnotationContainers), sayListsDiffer(v.gear.listKey))
		}
	case allowed:
		v.targets.names = v.namesIn(wire.AnnotationContainers, allow)
		if len(v.targets.names) == 0 {
			v.file(violation.Metadata, v.annotation(wire.AnnotationContainers), sayListEmpty())
		}
	default:
		v.targets.names = v.usual()
	}
	v.targets.any = len(v.targets.names) > 0
}

// usual returns the containers that get the token when nobody says otherwise.
func (v *review) usual() []string {
	s := &v.pod.Spec
	names := make([]string, 0, len(s.Containers)+len(s.InitContainers))
	for i := range s.InitContainers {
		if c := &s.InitContainers[i]; c.Always && !slices.Contains(v.rules.SkipContainers, c.Name) {
			names = append(names, c.Name)
		}
	}
	for i := range s.Containers {
		if c := &s.Containers[i]; !slices.Contains(v.rules.SkipContainers, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

// namesIn reads a list of containers and refuses those that the pod does not have. The names come back in pod order. In a
// template an unknown name is only noted, since another webhook may add the container to the pods.
func (v *review) namesIn(key, text string) []string {
	wanted := splitNames(text)
	names := make([]string, 0, len(wanted))
	var candidates []string
	for _, list := range [][]manifest.Container{v.pod.Spec.InitContainers, v.pod.Spec.Containers} {
		for i := range list {
			candidates = append(candidates, list[i].Name)
			if slices.Contains(wanted, list[i].Name) {
				names = append(names, list[i].Name)
			}
		}
	}
	for _, name := range wanted {
		switch {
		case slices.Contains(candidates, name):
		case v.req.Entry == EntryTemplate:
			v.notes.unknown.mark(v.base + "metadata.annotations")
		default:
			v.file(violation.Metadata, v.annotation(key), sayUnknownContainer(name, candidates))
		}
	}
	return names
}

// splitNames splits a comma-separated list. Space around a name is forgiven; an empty text is an empty list.
func splitNames(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	names := strings.Split(text, ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return names
}

func sameSet(a, b []string) bool {
	for _, n := range a {
		if !slices.Contains(b, n) {
			return false
		}
	}
	for _, n := range b {
		if !slices.Contains(a, n) {
			return false
		}
	}
	return true
}
