// Package manifest reads from raw JSON the few parts of a pod that rules look at, and finds the pod templates inside any
// object. Keys are compared case-sensitively and a key that stands twice is an error, as the API server sees it: a decoder
// that forgives either can be shown one pod while the kubelet runs another. Everything else is skipped, so that fields
// newer than any API type neither break a decision nor cost much.
package manifest

import "strings"

// Pod is what the rules read of a pod or of a pod template. Its strings are parts of the raw text, so a Pod is meant to live
// as long as one decision, and the text must not change meanwhile. A part that is absent or null is the zero value.
type Pod struct {
	Meta Meta
	Spec Spec
}

// Shape says what stands at a key, as far as a patch that adds below it must know.
type Shape uint8

const (
	// Absent: nothing, null, or an empty list or object; a patch creates the parent.
	Absent Shape = iota
	// Filled: a list or an object with at least one member; a patch adds to it.
	Filled
)

// Pair is one label or annotation.
type Pair struct {
	Key   string
	Value string
}

// Pairs are labels or annotations, in the order of the document.
type Pairs struct {
	Shape Shape
	List  []Pair // only keys under lanyard.dev/ and the kubelet's mirror annotation
}

// Get returns the value at key and whether the key is there.
func (p Pairs) Get(key string) (string, bool) {
	for _, kv := range p.List {
		if kv.Key == key {
			return kv.Value, true
		}
	}
	return "", false
}

// Meta is the metadata of an object.
type Meta struct {
	Shape        Shape
	Name         string
	GenerateName string
	Labels       Pairs
	Annotations  Pairs
	Owners       []Owner
}

// Owner is one ownerReference.
type Owner struct {
	APIVersion string
	Kind       string
	Name       string
	UID        string
	Controller bool
}

// Group is the API group of the owner's apiVersion; "v1" has the empty group.
func (o Owner) Group() string {
	group, _, ok := strings.Cut(o.APIVersion, "/")
	if !ok {
		return ""
	}
	return group
}

// Controller returns the owner that controls the object; nil means that it is bare.
func (m Meta) Controller() *Owner {
	for i := range m.Owners {
		if m.Owners[i].Controller {
			return &m.Owners[i]
		}
	}
	return nil
}

// Spec is what the rules read of a pod's spec. Shape is Absent also when the object has no spec.
type Spec struct {
	Shape               Shape
	ServiceAccountName  string
	OS                  string
	NodeOS              string // nodeSelector's kubernetes.io/os, or its beta form
	WindowsOptions      bool   // securityContext.windowsOptions is set, on the pod or on a container
	WindowsAffinity     bool   // the required node affinity leaves only Windows nodes
	HasNodeSelector     bool
	HasAffinity         bool
	GracePeriodSeconds  int64 // terminationGracePeriodSeconds; 0 when unset
	VolumesShape        Shape
	Volumes             []Volume
	InitContainers      []Container
	Containers          []Container
	EphemeralContainers []Container

	account string // the deprecated field serviceAccount
}

// Volume is one volume: its name, its text as it stood, and the audiences of the tokens it projects.
type Volume struct {
	Name      string
	Raw       string
	Audiences []Audience
}

// Audience is the audience of one serviceAccountToken source; Source is its index in projected.sources.
type Audience struct {
	Source int
	Name   string
}

// Container is a container of any of the three lists.
type Container struct {
	Name        string
	Always      bool // restartPolicy is Always: an init container with it is a native sidecar
	EnvShape    Shape
	Env         []Env
	EnvFrom     []EnvFrom
	MountsShape Shape
	Mounts      []Mount
	Devices     []Device
}

// Env is one environment variable. Its value can be compared and never read, so that no message can carry it.
type Env struct {
	Name    string
	value   string
	opaque  bool // a value that is not a string; equal to nothing
	hasFrom bool
}

// Literal says whether the entry is exactly a plain value equal to want.
func (e Env) Literal(want string) bool { return !e.opaque && !e.hasFrom && e.value == want }

// Empty says whether the entry sets its name to nothing: no valueFrom, and a value that is absent, null or "".
func (e Env) Empty() bool { return e.Literal("") }

// EnvFrom is one envFrom source; only its prefix matters.
type EnvFrom struct {
	Prefix string
}

// Mount is one volumeMount. Other says that it carries a field that is not among these.
type Mount struct {
	Name              string
	MountPath         string
	SubPath           string
	SubPathExpr       string
	Propagation       string
	RecursiveReadOnly string
	ReadOnly          bool
	Other             bool
}

// Device is one raw block volume (volumeDevices).
type Device struct {
	Name       string
	DevicePath string
}

// Template is a pod template somewhere inside an object: Path is its field path, "spec.template" for a Job and "" for a
// pod itself; Raw is its text.
type Template struct {
	Path string
	Raw  string
	Pod  Pod
}
