package mutate

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate/manifest"
	"github.com/lanyard-k8s/lanyard/mutate/reserved"
)

// gear is what an entry's role puts into a pod: names and paths from the rules, never from the pod. The same gear says what
// is written, what counts as exactly ours, and what is fenced off from everybody else.
type gear struct {
	role      Role
	token     Token
	volume    string         // the token volume's name
	caMap     string         // the CA's ConfigMap; empty without a CA
	env       []reserved.Own // the token file's variable first
	optional  []reserved.Own // the same, none required
	listKey   string         // the annotation that records the containers first used
	expires   int64          // the token's lifetime in this pod, set when the pod has been read
	ownMounts [2]manifest.Mount
	fences    [2]fenced // of ownMounts
}

// gearFor returns the gear of an entry's role, or nil when that role is switched off.
func (r *Rules) gearFor(e Entry) *gear {
	switch e {
	case EntryJob, EntryTemplate:
		if r.Job == nil {
			return nil
		}
		g := newGear(Job, r.Job.Token, wire.VolumeJob, r.Job.CAConfigMap, wire.AnnotationJobContainers)
		g.env = append(g.env, reserved.Own{Name: wire.EnvSubjectTokenFile, Value: g.token.file(), Required: true})
		g.env = append(g.env, reserved.Own{Name: wire.EnvBaseURL, Value: r.Job.BaseURL})
		return g.withCA()
	case EntryPublisher, EntryListed:
		if r.Publisher == nil {
			return nil
		}
		p := r.Publisher
		g := newGear(Publisher, p.Token, wire.VolumePublisher, p.CAConfigMap, wire.AnnotationPublisherContainers)
		g.env = append(g.env, reserved.Own{Name: wire.EnvPublisherTokenPath, Value: g.token.file(), Required: true})
		return g.withCA()
	default:
		return nil
	}
}

func newGear(role Role, t Token, volume, caMap, listKey string) *gear {
	g := &gear{role: role, token: t, volume: volume, caMap: caMap, listKey: listKey, expires: t.ExpirationSeconds}
	g.ownMounts[0] = manifest.Mount{Name: volume, MountPath: t.MountPath, ReadOnly: true}
	g.ownMounts[1] = manifest.Mount{Name: wire.VolumeCA, MountPath: wire.CAMountPath, ReadOnly: true}
	g.fences = [2]fenced{fenceOf(t.MountPath), fenceOf(wire.CAMountPath)}
	g.env = make([]reserved.Own, 0, 3)
	return g
}

// withCA adds the variable that names the CA file, when there is a CA, and closes the list.
func (g *gear) withCA() *gear {
	if g.caMap != "" {
		g.env = append(g.env, reserved.Own{Name: wire.EnvCAFile, Value: wire.CAMountPath + "/" + wire.CAFile})
	}
	g.optional = slices.Clone(g.env)
	g.optional[0].Required = false
	return g
}

// file is the path of the token's file inside a container.
func (t Token) file() string { return t.MountPath + "/" + wire.TokenFile }

// mounts returns the mounts that a target container has: the token's, then the CA's if there is one.
func (g *gear) mounts() []manifest.Mount {
	if g.caMap == "" {
		return g.ownMounts[:1]
	}
	return g.ownMounts[:]
}

// exact says whether a mount is the wanted one, where the documented meanings of an unset field count as unset.
func exact(m, want *manifest.Mount) bool {
	return m.Name == want.Name && m.MountPath == want.MountPath && m.ReadOnly == want.ReadOnly &&
		m.SubPath == "" && m.SubPathExpr == "" && !m.Other &&
		(m.Propagation == "" || m.Propagation == "None") &&
		(m.RecursiveReadOnly == "" || m.RecursiveReadOnly == "Disabled")
}

// tokenVolume is the text of the token's volume. No defaultMode: the kubelet's 0644 suits containers of any user.
func (g *gear) tokenVolume() []byte {
	b := make([]byte, 0, 256)
	b = append(b, `{"name":`...)
	b = quote(b, g.volume)
	b = append(b, `,"projected":{"sources":[{"serviceAccountToken":{"audience":`...)
	b = quote(b, g.token.Audience)
	b = append(b, `,"expirationSeconds":`...)
	b = strconv.AppendInt(b, g.expires, 10)
	b = append(b, `,"path":"`+wire.TokenFile+`"}}]}}`...)
	return b
}

// caVolume is the text of the CA's volume, optional since the ConfigMap may come after the pod.
func (g *gear) caVolume() []byte {
	b := make([]byte, 0, 128)
	b = append(b, `{"name":"`+wire.VolumeCA+`","configMap":{"name":`...)
	b = quote(b, g.caMap)
	return append(b, `,"optional":true}}`...)
}

func envJSON(b []byte, name, value string) []byte {
	b = append(b, `{"name":`...)
	b = quote(b, name)
	b = append(b, `,"value":`...)
	b = quote(b, value)
	return append(b, '}')
}

func mountJSON(b []byte, m *manifest.Mount) []byte {
	b = append(b, `{"name":`...)
	b = quote(b, m.Name)
	b = append(b, `,"mountPath":`...)
	b = quote(b, m.MountPath)
	return append(b, `,"readOnly":true}`...)
}

// quote appends s as a JSON string. Text that is not valid UTF-8 cannot come from a request that was decoded, and is
// replaced, not refused.
func quote(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}
