package preview

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/lanyard-k8s/lanyard/mutate"
)

// podTemplate is a pod template within an object: the JSON pointer that leads to it, the field path that people read and
// its JSON (metadata and spec).
type podTemplate struct {
	pointer string
	field   string
	raw     []byte
}

// pods are what a controller makes from a template: the kind and name of the controller, one pod, and the entries of the
// webhook that the pod reaches.
type pods struct {
	template    podTemplate
	maker       maker
	pod         []byte
	hasMetadata bool // whether the template itself has metadata
	entries     []mutate.Entry
}

// workload follows an object that is not a pod: the creator stamp, the early check of its templates, and then the pods
// that its controller would make from each template.
func (a *admission) workload() error {
	made, err := a.made()
	if err != nil {
		return err
	}
	if err := a.stamp(); err != nil {
		return err
	}
	if len(made) == 0 {
		a.note("the kind carries no pod template: passed through as it is")
		return nil
	}
	if err := a.checkTemplates(); err != nil {
		return err
	}
	for _, m := range made {
		if err := a.admitPods(m); err != nil {
			return err
		}
	}
	return nil
}

// made finds the object's templates and makes a pod of each.
func (a *admission) made() ([]pods, error) {
	templates, err := podTemplates(a.object)
	if err != nil {
		return nil, fmt.Errorf("looking for pod templates: %w", err)
	}
	var made []pods
	for _, t := range templates {
		m := pods{template: t, maker: a.makerOf(a.document, t.field)}
		if m.pod, m.hasMetadata, err = podFrom(t.raw, m.maker); err != nil {
			return nil, err
		}
		m.entries = a.entries(m.pod)
		made = append(made, m)
	}
	return made, nil
}

func (a *admission) note(text string) { a.found.notes = union(a.found.notes, []string{text}) }

// stamp writes the creator stamp on kinds that bear it.
func (a *admission) stamp() error {
	stamped := slices.ContainsFunc(a.Stamped, func(k Kind) bool { return k.GroupKind == a.document.Kind })
	if !a.managed() || !stamped {
		return nil
	}
	request := a.request(mutate.EntryJob)
	d, err := mutate.Stamp(request, a.Rules)
	if err != nil {
		return fmt.Errorf("stamping the object: %w", err)
	}
	a.found.add(d, here)
	return a.apply(d.Patch)
}

// checkTemplates asks what the person who submits the object would be told at once.
func (a *admission) checkTemplates() error {
	if !a.managed() {
		return nil
	}
	d, err := mutate.Template(a.request(mutate.EntryTemplate), a.Rules)
	if err != nil {
		return fmt.Errorf("checking the pod templates: %w", err)
	}
	a.found.add(d, here)
	return nil
}

func (a *admission) request(entry mutate.Entry) mutate.Request {
	return mutate.Request{
		Entry: entry, Operation: mutate.Create, Kind: a.document.Kind, Namespace: a.namespace,
		Username: a.Username, Object: a.object,
	}
}

// apply adds operations to the object.
func (a *admission) apply(ops []mutate.Op) error {
	if len(ops) == 0 {
		return nil
	}
	object, err := applyPatch(a.object, ops)
	if err != nil {
		return err
	}
	a.object = object
	a.found.patch = append(a.found.patch, ops...)
	return nil
}

// admitPods follows the pods that would be made from a template, and shows in the template what they would get.
func (a *admission) admitPods(m pods) error {
	if len(m.entries) == 0 {
		a.note("no entry of the webhook is called for the pods made from it")
		return nil
	}
	if a.managed() && !slices.Contains(a.Rules.Job.Kinds, m.maker.kind) {
		a.note(fmt.Sprintf("its pods are made by kind %s, which is no job kind: the rules hold for them, but they get no job's token", m.maker.kind.Kind))
	}
	denied := a.found.denied
	a.found.denied = false
	out, err := a.admitPod(m.pod, m.maker.username, m.entries, func(field string) string { return joinField(m.template.field, field) })
	a.found.denied = a.found.denied || denied
	if err != nil {
		return err
	}
	return a.apply(below(m.template.pointer, out.patch, m.hasMetadata))
}

// joinField puts a pod's field path below its template's. A text that starts with no path of a pod stays as it is.
func joinField(template, text string) string {
	if template == "" || (!strings.HasPrefix(text, "spec") && !strings.HasPrefix(text, "metadata")) {
		return text
	}
	return template + "." + text
}

// below turns a patch of a pod into a patch of the object that holds its template.
func below(pointer string, ops []mutate.Op, hasMetadata bool) []mutate.Op {
	var out []mutate.Op
	for _, op := range ops {
		if !hasMetadata && strings.HasPrefix(op.Path, "/metadata/") {
			hasMetadata = true
			out = append(out, mutate.Op{Op: "add", Path: pointer + "/metadata", Value: json.RawMessage("{}")})
		}
		op.Path = pointer + op.Path
		out = append(out, op)
	}
	return out
}
