// Package violation says what a rule found wrong with an object: a reason that metrics and documents name, the field's
// path and a sentence for the person who wrote it. A violation never carries a value that the object held, since
// environment values may be secrets.
package violation

import (
	"cmp"
	"slices"
)

// Reason is why a pod or a template is refused. Its text is the metric label and the key in docs/reference/reasons.md.
type Reason string

// The reasons, in the order of docs/reference/reasons.md.
const (
	// ReservedEnv: a variable that the platform owns was set by someone else.
	ReservedEnv Reason = "reserved_env"
	// DuplicateEnv: our own entry stands more than once, and the kubelet takes the last.
	DuplicateEnv Reason = "duplicate_env"
	// EnvFromPrefix: an envFrom prefix could complete a reserved name.
	EnvFromPrefix Reason = "env_from_prefix"
	// EnvFromOpen: a container with envFrom lacks the empty entries that keep reserved names out.
	EnvFromOpen Reason = "env_from_open"
	// LookAlike: a name that only looks like a reserved one (refused under strictNames, else a warning).
	LookAlike Reason = "look_alike"
	// Endpoint: a variable that would send the token elsewhere (refused under protectEndpoints, else a warning).
	Endpoint Reason = "endpoint_redirect"
	// VolumeConflict: a volume under our name that is not exactly ours.
	VolumeConflict Reason = "volume_conflict"
	// MountConflict: our volume mounted where, how or in a container that it must not be.
	MountConflict Reason = "mount_conflict"
	// PathConflict: something else mounted at, below or directly above our path.
	PathConflict Reason = "path_conflict"
	// AudienceForbidden: a projected token names a protected audience outside our own volume.
	AudienceForbidden Reason = "audience_forbidden"
	// NotInjected: the pod is entitled to its token and does not carry it.
	NotInjected Reason = "not_injected"
	// Metadata: a label or annotation of ours with a value that means nothing, or that only the platform writes.
	Metadata Reason = "metadata_invalid"
	// Windows: injection asked for on a Windows pod.
	Windows Reason = "windows_unsupported"
)

// Reasons lists every reason once, for metrics, documents and the tests that hold them together.
func Reasons() []Reason {
	return []Reason{
		ReservedEnv, DuplicateEnv, EnvFromPrefix, EnvFromOpen, LookAlike, Endpoint, VolumeConflict, MountConflict,
		PathConflict, AudienceForbidden, NotInjected, Metadata, Windows,
	}
}

// Loosened says whether admission.mode audit lets the reason through with a warning. Names, paths and look-alikes are
// loosened; what protects an audience or says that a pod has no identity is not.
func (r Reason) Loosened() bool {
	switch r {
	case ReservedEnv, DuplicateEnv, EnvFromPrefix, EnvFromOpen, LookAlike, Endpoint, VolumeConflict, MountConflict, PathConflict:
		return true
	default:
		return false
	}
}

// Violation is one fault: Field is a path such as "spec.containers[0].env[2].name", Message a full clause that says what
// is wrong and what to do instead.
type Violation struct {
	Reason  Reason
	Field   string
	Message string
}

// Sort orders violations by path, then reason, so that the same object always gets the same answer.
func Sort(vs []Violation) {
	slices.SortStableFunc(vs, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
}
