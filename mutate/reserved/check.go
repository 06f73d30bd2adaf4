package reserved

import (
	"github.com/lanyard-k8s/lanyard/mutate/manifest"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
)

// Own is an entry that the platform itself writes into a container. Under a reserved or endpoint name only exactly this
// literal may stand. Required says that an empty entry will not do in its place, because this container needs the value.
type Own struct {
	Name     string
	Value    string
	Required bool
}

// Finding is one entry of a container that a rule speaks about. Index counts in env, or in envFrom when Reason is
// violation.EnvFromPrefix. Name is the variable or the prefix as written, Canonical the reserved name that it resembles or
// could complete.
type Finding struct {
	Reason    violation.Reason
	Index     int
	Name      string
	Canonical string
}

// Check visits everything in a container's env and envFrom that bears on platform-owned names, in order: entries under a
// reserved name that are neither ours nor empty (ReservedEnv), acceptable ones that stand again (DuplicateEnv), endpoint
// names with another value than ours (Endpoint), look-alikes (LookAlike) and prefixes (EnvFromPrefix). Whether the last
// three refuse is the caller's rule.
func Check(c *manifest.Container, own []Own, found func(Finding)) {
	var seen map[string]bool
	for i := range c.Env {
		e := &c.Env[i]
		switch {
		case Reserved(e.Name):
			if !acceptable(e, own) {
				found(Finding{Reason: violation.ReservedEnv, Index: i, Name: e.Name})
				continue
			}
			if seen[e.Name] {
				found(Finding{Reason: violation.DuplicateEnv, Index: i, Name: e.Name})
				continue
			}
			if seen == nil {
				seen = make(map[string]bool, 8)
			}
			seen[e.Name] = true
		case Endpoint(e.Name):
			if !ours(e, own) {
				found(Finding{Reason: violation.Endpoint, Index: i, Name: e.Name})
			}
		default:
			if canonical, ok := LookAlike(e.Name); ok {
				found(Finding{Reason: violation.LookAlike, Index: i, Name: e.Name, Canonical: canonical})
			}
		}
	}
	for i := range c.EnvFrom {
		if name, ok := Completes(c.EnvFrom[i].Prefix); ok {
			found(Finding{Reason: violation.EnvFromPrefix, Index: i, Name: c.EnvFrom[i].Prefix, Canonical: name})
		}
	}
}

// acceptable says whether an entry under a reserved name is exactly ours, or empty where nothing of ours is needed.
func acceptable(e *manifest.Env, own []Own) bool {
	for _, o := range own {
		if o.Name == e.Name {
			return e.Literal(o.Value) || (!o.Required && e.Empty())
		}
	}
	return e.Empty()
}

// ours says whether an entry is exactly one that the platform writes.
func ours(e *manifest.Env, own []Own) bool {
	for _, o := range own {
		if o.Name == e.Name {
			return e.Literal(o.Value)
		}
	}
	return false
}

// Open returns the exact names that something in the container's envFrom could still set: those without an entry of their
// own in env, since an explicit entry beats envFrom in the kubelet. A container without envFrom is never open.
func Open(c *manifest.Container) []string {
	if len(c.EnvFrom) == 0 {
		return nil
	}
	var open []string
	for _, name := range Exact() {
		if !Has(c, name) {
			open = append(open, name)
		}
	}
	return open
}

// Has says whether a container's env has an entry with this very name.
func Has(c *manifest.Container, name string) bool {
	for i := range c.Env {
		if c.Env[i].Name == name {
			return true
		}
	}
	return false
}
