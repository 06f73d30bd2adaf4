package manifest

import "strings"

// maxContainers bounds a list of containers. No node runs as many, and a patch that adds to each of a few hundred thousand
// tiny ones would outgrow the pod by far.
const maxContainers = 1000

// containers reads one list of containers. The pod's spec is passed for what a container says about the whole pod.
func (r *reader) containers(s *Spec) ([]Container, error) {
	var cs []Container
	_, err := r.list(func() error {
		if len(cs) == maxContainers {
			return &Error{Path: fieldPath(string(r.dec.StackPointer())), Problem: "want at most 1000 elements"}
		}
		c, err := r.container(s)
		cs = append(cs, c)
		return err
	})
	return cs, err
}

func (r *reader) container(s *Spec) (Container, error) {
	var c Container
	err := r.item(func(key string) (err error) {
		switch key {
		case "name":
			c.Name, err = r.str()
		case "restartPolicy":
			var policy string
			policy, err = r.str()
			c.Always = policy == "Always"
		case "env":
			c.EnvShape, err = r.list(func() error {
				e, err := r.env()
				c.Env = append(c.Env, e)
				return err
			})
		case "envFrom":
			_, err = r.list(func() error {
				f, err := r.envFrom()
				c.EnvFrom = append(c.EnvFrom, f)
				return err
			})
		case "volumeMounts":
			c.MountsShape, err = r.list(func() error {
				m, err := r.mount()
				c.Mounts = append(c.Mounts, m)
				return err
			})
		case "volumeDevices":
			_, err = r.list(func() error {
				d, err := r.device()
				c.Devices = append(c.Devices, d)
				return err
			})
		case "securityContext":
			err = r.security(s)
		default:
			err = r.skip()
		}
		return err
	})
	return c, err
}

func (r *reader) env() (Env, error) {
	var e Env
	err := r.item(func(key string) (err error) {
		switch key {
		case "name":
			e.Name, err = r.str()
		case "value":
			if k := r.dec.PeekKind(); k != '"' && k != 'n' {
				e.opaque = true
			}
			e.value, err = r.str()
		case "valueFrom":
			e.hasFrom, err = r.present()
		default:
			err = r.skip()
		}
		return err
	})
	return e, err
}

func (r *reader) envFrom() (EnvFrom, error) {
	var f EnvFrom
	err := r.item(func(key string) (err error) {
		if key != "prefix" {
			return r.skip()
		}
		f.Prefix, err = r.str()
		return err
	})
	return f, err
}

func (r *reader) mount() (Mount, error) {
	var m Mount
	err := r.item(func(key string) (err error) {
		switch key {
		case "name":
			m.Name, err = r.str()
		case "mountPath":
			m.MountPath, err = r.str()
		case "subPath":
			m.SubPath, err = r.str()
		case "subPathExpr":
			m.SubPathExpr, err = r.str()
		case "mountPropagation":
			m.Propagation, err = r.str()
		case "recursiveReadOnly":
			m.RecursiveReadOnly, err = r.str()
		case "readOnly":
			m.ReadOnly, err = r.boolean()
		default:
			var there bool
			there, err = r.present()
			m.Other = m.Other || there
		}
		return err
	})
	return m, err
}

func (r *reader) device() (Device, error) {
	var d Device
	err := r.item(func(key string) (err error) {
		switch key {
		case "name":
			d.Name, err = r.str()
		case "devicePath":
			d.DevicePath, err = r.str()
		default:
			err = r.skip()
		}
		return err
	})
	return d, err
}

func (r *reader) volume() (Volume, error) {
	var v Volume
	before := r.dec.InputOffset()
	err := r.item(func(key string) (err error) {
		switch key {
		case "name":
			v.Name, err = r.str()
		case "projected":
			v.Audiences, err = r.projected()
		default:
			err = r.skip()
		}
		return err
	})
	v.Raw = strings.TrimLeft(r.text[before:r.dec.InputOffset()], " \t\r\n,:")
	return v, err
}

// projected collects the audience of every source of a projected volume.
func (r *reader) projected() ([]Audience, error) {
	var as []Audience
	_, err := r.object(func(key string) error {
		if key != "sources" {
			return r.skip()
		}
		source := -1
		_, err := r.list(func() error {
			source++
			return r.source(func(audience string) { as = append(as, Audience{Source: source, Name: audience}) })
		})
		return err
	})
	return as, err
}

// source reads one source of a projected volume and hands over the audience of its token, if it has one.
func (r *reader) source(found func(audience string)) error {
	return r.item(func(key string) error {
		if key != "serviceAccountToken" {
			return r.skip()
		}
		_, err := r.object(func(key string) error {
			if key != "audience" {
				return r.skip()
			}
			a, err := r.str()
			found(a)
			return err
		})
		return err
	})
}
