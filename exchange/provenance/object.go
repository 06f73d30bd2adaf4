package provenance

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// GroupKind is a kind of object in any of its versions. Its text is "group/Kind", and "Pod" for the core group's.
type GroupKind struct {
	Group string
	Kind  string
}

// PodKind is the kind of pods.
func PodKind() GroupKind { return GroupKind{Kind: "Pod"} }

// String is the text that submissions are stored under.
func (k GroupKind) String() string {
	if k.Group == "" {
		return k.Kind
	}
	return k.Group + "/" + k.Kind
}

// Reference is one object that is to be read live. Comparing all of it is what tells an object from a later one of its name.
type Reference struct {
	GroupKind
	Namespace string
	Name      string
	UID       string
}

// Object is what is read of a job kind's or a parent's live object.
type Object struct {
	Reference
	// Stamp is who created it; Stamped says whether it says so at all.
	Stamp   string
	Stamped bool
	Created metav1.Time
	// Generation counts the changes of its spec, from one. It is the API server's; zero is none.
	Generation int64
	// Controllers are the owner references that claim to control it. The API server allows one.
	Controllers []metav1.OwnerReference
	Deleting    bool
	Finished    bool
	Suspended   bool
	// OptedOut says that its pod template asks for no identity. Only a built-in kind can, since it is not known where a
	// custom kind keeps its templates.
	OptedOut bool
}

// Live holds what was read from the API server: an object, or nil where there is none. What is absent was not read.
type Live map[Reference]*Object

// Read reads an object as the API server has given it. The kind comes from what was asked for.
func Read(kind GroupKind, u *unstructured.Unstructured) Object {
	o := Object{
		Reference:   Reference{GroupKind: kind, Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID())},
		Created:     u.GetCreationTimestamp(),
		Generation:  u.GetGeneration(),
		Controllers: controllers(u.GetOwnerReferences()),
		Deleting:    u.GetDeletionTimestamp() != nil,
		Finished:    finished(u.Object),
		Suspended:   truth(u.Object, "spec", "suspend") || truth(u.Object, "spec", "runPolicy", "suspend"),
	}
	o.Stamp, o.Stamped = u.GetAnnotations()[wire.AnnotationCreatedBy]
	if kind.Group == "batch" {
		template := []string{"spec", "template", "metadata", "labels"}
		if kind.Kind == "CronJob" {
			template = append([]string{"spec", "jobTemplate"}, template...)
		}
		labels, _, _ := unstructured.NestedStringMap(u.Object, template...)
		o.OptedOut = labels[wire.LabelRole] == wire.RoleNone
	}
	return o
}

// finished says whether a condition says that the work is over for good. The words are those of the Job and of the training
// kinds; "FailureTarget" and "SuccessCriteriaMet" are not among them, since pods still run then.
func finished(object map[string]any) bool {
	conditions, _, _ := unstructured.NestedSlice(object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		word, _ := condition["type"].(string)
		if condition["status"] == "True" && slices.Contains([]string{"Complete", "Completed", "Succeeded", "Failed", "Finished"}, word) {
			return true
		}
	}
	return false
}

func truth(object map[string]any, fields ...string) bool {
	yes, _, err := unstructured.NestedBool(object, fields...)
	return err == nil && yes
}

// controllers are the owner references that claim to control.
func controllers(all []metav1.OwnerReference) []metav1.OwnerReference {
	var found []metav1.OwnerReference
	for _, o := range all {
		if o.Controller != nil && *o.Controller {
			found = append(found, o)
		}
	}
	return found
}

// referred is the object that an owner reference names. Owners are in their dependents' namespace.
func referred(o metav1.OwnerReference, namespace string) Reference {
	group, _, found := strings.Cut(o.APIVersion, "/")
	if !found {
		group = ""
	}
	return Reference{GroupKind: GroupKind{Group: group, Kind: o.Kind}, Namespace: namespace, Name: o.Name, UID: string(o.UID)}
}
