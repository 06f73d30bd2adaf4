package mutate

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate/manifest"
)

// patch gathers `add` operations in the order in which they are applied.
type patch struct {
	ops []Op
}

func (p *patch) add(path string, value []byte) {
	p.ops = append(p.ops, Op{Op: "add", Path: path, Value: json.RawMessage(value)})
}

// extend adds elements to the end of a list, one operation each, or creates the list in one.
func (p *patch) extend(list string, shape manifest.Shape, values [][]byte) {
	if len(values) == 0 {
		return
	}
	if shape == manifest.Filled {
		end := list + "/-"
		for _, value := range values {
			p.add(end, value)
		}
		return
	}
	size := 2 + len(values)
	for _, value := range values {
		size += len(value)
	}
	all := append(make([]byte, 0, size), '[')
	for i, value := range values {
		if i > 0 {
			all = append(all, ',')
		}
		all = append(all, value...)
	}
	p.add(list, append(all, ']'))
}

// spec writes what the pod lacks: volumes first, so that no mount is ever without its volume, then container by container.
func (v *review) spec(p *patch) {
	p.ops = make([]Op, 0, 6+6*len(v.missing.containers))
	var volumes [][]byte
	if v.missing.token {
		volumes = append(volumes, v.gear.tokenVolume())
	}
	if v.missing.ca {
		volumes = append(volumes, v.gear.caVolume())
	}
	p.extend("/spec/volumes", v.pod.Spec.VolumesShape, volumes)
	w := writer{}
	for i := range v.missing.containers {
		l := &v.missing.containers[i]
		at := "/spec/" + string(l.seat.list) + "/" + strconv.Itoa(l.seat.index)
		p.extend(at+"/env", l.seat.c.EnvShape, w.envs(l))
		p.extend(at+"/volumeMounts", l.seat.c.MountsShape, w.mounts(l))
	}
}

// writer writes entries and keeps each text, since the same few go into every container.
type writer struct {
	texts   map[string][]byte
	scratch [][]byte
}

func (w *writer) text(key string, write func([]byte) []byte) []byte {
	if t, ok := w.texts[key]; ok {
		return t
	}
	if w.texts == nil {
		w.texts = make(map[string][]byte, 8)
	}
	t := write(make([]byte, 0, 128))
	w.texts[key] = t
	return t
}

func (w *writer) envs(l *lack) [][]byte {
	out := w.scratch[:0]
	for _, o := range l.env {
		out = append(out, w.text(o.Name+"=", func(b []byte) []byte { return envJSON(b, o.Name, o.Value) }))
	}
	for _, name := range l.tombs {
		out = append(out, w.text(name, func(b []byte) []byte { return envJSON(b, name, "") }))
	}
	w.scratch = out
	return out
}

func (w *writer) mounts(l *lack) [][]byte {
	out := w.scratch[:0]
	for i := range l.mounts {
		out = append(out, w.text(l.mounts[i].MountPath, func(b []byte) []byte { return mountJSON(b, &l.mounts[i]) }))
	}
	w.scratch = out
	return out
}

// member is one label or annotation to write.
type member struct {
	key, value string
}

// metadata writes labels and annotations, creating their parents where there are none.
func (p *patch) metadata(m *manifest.Meta, labels, annotations []member) {
	if m.Shape == manifest.Absent && len(labels)+len(annotations) > 0 {
		b := []byte{'{'}
		if len(annotations) > 0 {
			b = members(append(b, `"annotations":`...), annotations)
		}
		if len(labels) > 0 {
			if len(annotations) > 0 {
				b = append(b, ',')
			}
			b = members(append(b, `"labels":`...), labels)
		}
		p.add("/metadata", append(b, '}'))
		return
	}
	p.members("/metadata/annotations", m.Annotations.Shape, annotations)
	p.members("/metadata/labels", m.Labels.Shape, labels)
}

func (p *patch) members(at string, shape manifest.Shape, ms []member) {
	if len(ms) == 0 {
		return
	}
	if shape == manifest.Absent {
		p.add(at, members(nil, ms))
		return
	}
	for _, m := range ms {
		p.add(at+"/"+escape(m.key), quote(nil, m.value))
	}
}

func members(b []byte, ms []member) []byte {
	b = append(b, '{')
	for i, m := range ms {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(quote(b, m.key), ':')
		b = quote(b, m.value)
	}
	return append(b, '}')
}

// escape writes a key as one step of a JSON pointer (RFC 6901).
func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// marks returns the label and the annotations that record what was done.
func (v *review) marks() (labels, annotations []member) {
	if v.req.Entry == EntryJob {
		if stamp, ok := v.pod.Meta.Annotations.Get(wire.AnnotationCreatedBy); !ok || stamp != v.req.Username {
			annotations = append(annotations, member{wire.AnnotationCreatedBy, v.req.Username})
		}
	}
	if v.gear == nil || v.standing != entitled || v.blocked || v.windows {
		return nil, annotations
	}
	if !v.targets.stamped {
		annotations = append(annotations, member{v.gear.listKey, strings.Join(v.targets.names, ",")})
	}
	if value := v.label(wire.LabelInjected); v.targets.any && !labelHas(value, v.gear.role) {
		labels = append(labels, member{wire.LabelInjected, labelWith(value, v.gear.role)})
	}
	return labels, annotations
}
