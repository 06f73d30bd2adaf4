// Package podtest builds pods and admission reviews for tests and benchmarks. Builders return plain JSON objects, not API
// types, so that tests can hold fields that no API type knows yet. Everything is deterministic.
package podtest

import (
	"encoding/json"
	"strings"
)

// Object is a JSON object under construction.
type Object map[string]any

// Edit changes a pod.
type Edit func(Object)

// Pod returns a pod in namespace "team" with one container "main" unless an edit adds others.
func Pod(edits ...Edit) Object {
	p := Object{
		"apiVersion": "v1",
		"kind":       "Pod",
		"metadata":   Object{"generateName": "trainer-", "namespace": "team"},
		"spec":       Object{"serviceAccountName": "runner"},
	}
	for _, edit := range edits {
		edit(p)
	}
	if spec := p.At("spec"); spec["containers"] == nil {
		spec["containers"] = []any{Container("main")}
	}
	return p
}

// JSON returns the object's text, keys in order.
func (o Object) JSON() []byte {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err) // only what tests put in can be wrong
	}
	return b
}

// At returns the object below the keys, making it where there is none.
func (o Object) At(keys ...string) Object {
	for _, key := range keys {
		child, ok := o[key].(Object)
		if !ok {
			child = Object{}
			o[key] = child
		}
		o = child
	}
	return o
}

// Label sets a label.
func Label(key, value string) Edit {
	return func(o Object) { o.At("metadata", "labels")[key] = value }
}

// Annotation sets an annotation.
func Annotation(key, value string) Edit {
	return func(o Object) { o.At("metadata", "annotations")[key] = value }
}

// Owner makes apiVersion/kind the controller.
func Owner(apiVersion, kind string) Edit {
	return func(o Object) {
		o.At("metadata")["ownerReferences"] = []any{Object{
			"apiVersion": apiVersion, "kind": kind, "name": strings.ToLower(kind) + "-1", "uid": "11111111-2222-3333-4444-555555555555", "controller": true,
		}}
	}
}

// Spec sets a field of the spec.
func Spec(key string, value any) Edit {
	return func(o Object) { o.At("spec")[key] = value }
}

// Volume adds a volume, given as JSON.
func Volume(text string) Edit {
	return func(o Object) { o.At("spec").push("volumes", Raw(text)) }
}

// In adds a container to a list: "containers", "initContainers" or "ephemeralContainers".
func In(list string, c Object) Edit {
	return func(o Object) { o.At("spec").push(list, c) }
}

// Containers adds app containers.
func Containers(cs ...Object) Edit {
	return func(o Object) {
		for _, c := range cs {
			o.At("spec").push("containers", c)
		}
	}
}

// Container returns a container with its edits applied.
func Container(name string, edits ...Edit) Object {
	c := Object{"name": name, "image": "registry.example/" + name + ":1"}
	for _, edit := range edits {
		edit(c)
	}
	return c
}

// Field sets a field of a container.
func Field(key string, value any) Edit {
	return func(o Object) { o[key] = value }
}

// Env adds a variable with a value.
func Env(name, value string) Edit {
	return func(o Object) { o.push("env", Object{"name": name, "value": value}) }
}

// EnvRaw adds a variable given as JSON.
func EnvRaw(text string) Edit {
	return func(o Object) { o.push("env", Raw(text)) }
}

// EnvFrom adds a ConfigMap as a source of variables.
func EnvFrom(prefix string) Edit {
	return func(o Object) {
		f := Object{"configMapRef": Object{"name": "settings"}}
		if prefix != "" {
			f["prefix"] = prefix
		}
		o.push("envFrom", f)
	}
}

// Mount adds a volume mount.
func Mount(volume, path string, readOnly bool) Edit {
	return func(o Object) {
		m := Object{"name": volume, "mountPath": path}
		if readOnly {
			m["readOnly"] = true
		}
		o.push("volumeMounts", m)
	}
}

// MountRaw adds a volume mount given as JSON.
func MountRaw(text string) Edit {
	return func(o Object) { o.push("volumeMounts", Raw(text)) }
}

// Sidecar makes an init container a native sidecar.
func Sidecar() Edit { return Field("restartPolicy", "Always") }

// Raw is a value given as JSON text.
func Raw(text string) json.RawMessage { return json.RawMessage(text) }

func (o Object) push(key string, value any) {
	list, _ := o[key].([]any)
	o[key] = append(list, value)
}
