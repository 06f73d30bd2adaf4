package mutate

import (
	"slices"
	"strconv"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate/manifest"
	"github.com/lanyard-k8s/lanyard/mutate/reserved"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
)

// list is one of a pod's lists of containers; its text is the field's name.
type list string

const (
	initList      list = "initContainers"
	appList       list = "containers"
	ephemeralList list = "ephemeralContainers"
)

// seat is where a container sits in its pod.
type seat struct {
	list   list
	index  int
	target bool
	c      *manifest.Container
}

// eachContainer visits every container of every list, in the order in which a pod starts them.
func (v *review) eachContainer(visit func(seat)) {
	s := &v.pod.Spec
	for i := range s.InitContainers {
		c := &s.InitContainers[i]
		visit(seat{initList, i, v.targets.has(c.Name), c})
	}
	for i := range s.Containers {
		c := &s.Containers[i]
		visit(seat{appList, i, v.targets.has(c.Name), c})
	}
	for i := range s.EphemeralContainers {
		visit(seat{ephemeralList, i, false, &s.EphemeralContainers[i]})
	}
}

// in is a spot inside a container: the field below it, and a name that tells it from its siblings.
func (v *review) in(s seat, field, name string) spot {
	return v.at("spec."+string(s.list)+"["+strconv.Itoa(s.index)+"]."+field, string(s.list)+"\x00"+s.c.Name+"\x00"+name)
}

// indexed is a spot at an element of a container's list.
func (v *review) indexed(s seat, field string, i int, rest, name string) spot {
	return v.in(s, field+"["+strconv.Itoa(i)+"]"+rest, name)
}

// container judges one container and notes what it lacks.
func (v *review) container(s seat) {
	if v.req.Entry.managed() {
		v.names(s)
	} else if v.gear != nil && s.target {
		v.publisherNames(s)
	}
	has := v.mounts(s)
	l := lack{seat: s}
	if v.standing == entitled && s.target {
		v.lacks(s, has, &l)
	}
	if v.req.Entry == EntryJob {
		l.tombs = open(s.c, l.env)
	}
	if len(l.env)+len(l.mounts)+len(l.tombs) > 0 {
		v.missing.containers = append(v.missing.containers, l)
	}
}

// lacks fills in what a target container needs of the role's variables and mounts. A publisher's container that mounts the
// token is done: its own chart says in its own way where the file is.
func (v *review) lacks(s seat, has [2]bool, l *lack) {
	if v.gear.role == Publisher && has[0] {
		return
	}
	// Nearly always all of it is missing or none; a slice of the gear's own lists then does.
	l.env = without(v.gear.env, func(_ int, o reserved.Own) bool { return reserved.Has(s.c, o.Name) })
	l.mounts = without(v.gear.mounts(), func(i int, _ manifest.Mount) bool { return has[i] })
}

// without returns the elements that are not there yet, in a new slice only where some are.
func without[T any](all []T, there func(int, T) bool) []T {
	var some []T
	cut := false
	for i, e := range all {
		switch {
		case !there(i, e) && cut:
			some = append(some, e)
		case there(i, e) && !cut:
			cut = true
			some = append(some, all[:i]...)
		}
	}
	if cut {
		return some
	}
	return all
}

// open returns the empty entries that a container with envFrom still needs, less those that are about to get a value.
func open(c *manifest.Container, env []reserved.Own) []string {
	names := reserved.Open(c)
	return slices.DeleteFunc(names, func(n string) bool {
		return slices.ContainsFunc(env, func(o reserved.Own) bool { return o.Name == n })
	})
}

// own returns the entries of ours that may stand in a container. The token file's variable belongs to the containers that
// get the token: elsewhere the path is fenced, but a mount further up could still put a file there.
func (v *review) own(s seat) []reserved.Own {
	switch {
	case v.gear == nil:
		return nil
	case v.standing == entitled && s.target:
		return v.gear.env
	case v.standing == possible && s.list != ephemeralList:
		return v.gear.optional
	default:
		return v.gear.env[1:]
	}
}

// names holds a container's variables against the platform's names.
func (v *review) names(s seat) {
	reserved.Check(s.c, v.own(s), func(f reserved.Finding) {
		switch f.Reason {
		case violation.ReservedEnv:
			v.blocked = v.blocked || (s.target && v.gear != nil && f.Name == v.gear.env[0].Name)
			v.file(f.Reason, v.envName(s, f), sayReserved(f.Name, s.target && f.Name == wire.EnvSubjectTokenFile))
		case violation.DuplicateEnv:
			v.file(f.Reason, v.envName(s, f), sayDuplicate(f.Name))
		case violation.EnvFromPrefix:
			v.file(f.Reason, v.indexed(s, "envFrom", f.Index, ".prefix", f.Name), sayPrefix(f.Name, f.Canonical))
		case violation.Endpoint:
			v.soft(v.rules.ProtectEndpoints, f, v.envName(s, f), sayEndpoint(f.Name), &v.notes.endpoints)
		case violation.LookAlike:
			v.soft(v.rules.StrictNames || v.windows, f, v.envName(s, f), sayLookAlike(f.Name, f.Canonical), &v.notes.lookAlikes)
		}
	})
	if len(s.c.EnvFrom) > 0 {
		v.notes.envFrom.add(v.base, s)
	}
}

// soft refuses or only notes, as the rules say.
func (v *review) soft(refuse bool, f reserved.Finding, at spot, message string, n *note) {
	if refuse {
		v.file(f.Reason, at, message)
		return
	}
	if !v.old(string(f.Reason), at.key) {
		n.mark(at.field)
	}
}

func (v *review) envName(s seat, f reserved.Finding) spot {
	return v.indexed(s, "env", f.Index, ".name", f.Name)
}

// publisherNames holds a publisher's container against the role's own variables, which are not reserved outside managed
// namespaces but must not point elsewhere in a container that gets the token.
func (v *review) publisherNames(s seat) {
	for i := range s.c.Env {
		e := &s.c.Env[i]
		for n, o := range v.gear.env {
			if e.Name != o.Name || e.Literal(o.Value) {
				continue
			}
			f := reserved.Finding{Reason: violation.Endpoint, Index: i, Name: e.Name}
			if n > 0 {
				v.soft(v.rules.ProtectEndpoints, f, v.envName(s, f), sayEndpoint(e.Name), &v.notes.endpoints)
				continue
			}
			v.blocked = true
			v.file(violation.ReservedEnv, v.envName(s, f), sayPublisherPath(e.Name))
		}
	}
}
