package manifest

import (
	"strings"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// Decode reads a pod. The error, an *Error, names the first place where the text is not JSON, repeats a key, or has a wrong
// type where the rules look.
func Decode(raw []byte) (Pod, error) {
	r := newReader(raw, false, newBounds())
	p, err := r.pod()
	if err != nil {
		return Pod{}, err
	}
	return p, r.end()
}

// DecodeMeta reads the metadata of any object and skips the rest of it.
func DecodeMeta(raw []byte) (Meta, error) {
	r := newReader(raw, false, newBounds())
	var m Meta
	err := r.item(func(key string) (err error) {
		if key != "metadata" {
			return r.skip()
		}
		m, err = r.meta()
		return err
	})
	if err != nil {
		return Meta{}, err
	}
	return m, r.end()
}

func (r *reader) pod() (Pod, error) {
	var p Pod
	err := r.item(func(key string) (err error) {
		switch key {
		case "metadata":
			p.Meta, err = r.meta()
		case "spec":
			p.Spec, err = r.spec()
		default:
			err = r.skip()
		}
		return err
	})
	return p, err
}

func (r *reader) meta() (Meta, error) {
	var m Meta
	shape, err := r.object(func(key string) (err error) {
		switch key {
		case "name":
			m.Name, err = r.str()
		case "generateName":
			m.GenerateName, err = r.str()
		case "labels":
			m.Labels, err = r.pairs()
		case "annotations":
			m.Annotations, err = r.pairs()
		case "ownerReferences":
			_, err = r.list(func() error {
				o, err := r.owner()
				m.Owners = append(m.Owners, o)
				return err
			})
		default:
			err = r.skip()
		}
		return err
	})
	m.Shape = shape
	return m, err
}

// pairs reads labels or annotations and keeps those that rules ask for. All of them must be strings.
func (r *reader) pairs() (Pairs, error) {
	var p Pairs
	shape, err := r.object(func(key string) error {
		if !strings.HasPrefix(key, wire.Prefix) && key != wire.AnnotationMirror {
			if k := r.dec.PeekKind(); k != '"' && k != 'n' {
				return r.wrong("a string")
			}
			return r.skip()
		}
		v, err := r.str()
		if err == nil && len(v) > maxAnnotation {
			return r.over(sayAnnotation)
		}
		if err == nil && !r.left.element() {
			return r.over(sayElements)
		}
		p.List = append(p.List, Pair{Key: key, Value: v})
		return err
	})
	p.Shape = shape
	return p, err
}

func (r *reader) owner() (Owner, error) {
	var o Owner
	err := r.item(func(key string) (err error) {
		switch key {
		case "apiVersion":
			o.APIVersion, err = r.str()
		case "kind":
			o.Kind, err = r.str()
		case "name":
			o.Name, err = r.str()
		case "uid":
			o.UID, err = r.str()
		case "controller":
			o.Controller, err = r.boolean()
		default:
			err = r.skip()
		}
		return err
	})
	return o, err
}
