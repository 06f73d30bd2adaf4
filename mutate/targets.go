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
	set     nameSet
	any     bool // at least one container of the pod is a target
	stamped bool // the list stands in the role's annotation already
}

func (t *targets) has(name string) bool { return t.set.has(name) }

// nameSet is a list of names with a quick way to ask for one. An annotation may name a great many.
type nameSet struct {
	few  []string
	many map[string]struct{}
}

// manyNames is where looking through a list becomes slower than a map.
const manyNames = 16

func setOf(names []string) nameSet {
	if len(names) <= manyNames {
		return nameSet{few: names}
	}
	many := make(map[string]struct{}, len(names))
	for _, n := range names {
		many[n] = struct{}{}
	}
	return nameSet{many: many}
}

func (s *nameSet) has(name string) bool {
	if s.many != nil {
		_, ok := s.many[name]
		return ok
	}
	return slices.Contains(s.few, name)
}

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
		if len(splitNames(allow)) == 0 {
			v.file(violation.Metadata, v.annotation(wire.AnnotationContainers), sayListEmpty())
		}
	default:
		v.targets.names = v.usual()
	}
	v.targets.any = len(v.targets.names) > 0
	v.targets.set = setOf(v.targets.names)
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

// maxUnknown bounds how many unknown names of a list are told.
const maxUnknown = 10

// namesIn reads a list of containers and refuses those that the pod does not have. The names come back in pod order. In a
// template an unknown name is only noted, since another webhook may add the container to the pods.
func (v *review) namesIn(key, text string) []string {
	wanted := splitNames(text)
	listed := setOf(wanted)
	var names, candidates []string
	for _, list := range [][]manifest.Container{v.pod.Spec.InitContainers, v.pod.Spec.Containers} {
		for i := range list {
			candidates = append(candidates, list[i].Name)
			if listed.has(list[i].Name) {
				names = append(names, list[i].Name)
			}
		}
	}
	present := setOf(candidates)
	unknown := 0
	for _, name := range wanted {
		if unknown == maxUnknown {
			break
		}
		if present.has(name) {
			continue
		}
		unknown++
		if v.req.Entry == EntryTemplate {
			v.notes.unknown.mark(v.base + "metadata.annotations")
			continue
		}
		v.file(violation.Metadata, v.annotation(key), sayUnknownContainer(name, candidates))
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
	left, right := setOf(a), setOf(b)
	return !slices.ContainsFunc(a, func(n string) bool { return !right.has(n) }) &&
		!slices.ContainsFunc(b, func(n string) bool { return !left.has(n) })
}
