package mutate

import (
	"strconv"
	"strings"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
)

// The values of label lanyard.dev/injected.
const (
	injectedPublisher = "publisher"
	injectedJob       = "job"
	injectedBoth      = "publisher.job"
)

// metadata reads our labels and annotations: the containers, the wanted lifetime, and values that mean nothing.
func (v *review) metadata() {
	v.roleLabel()
	if v.gear == nil || v.standing == outsider {
		v.injectedLabel()
		return
	}
	v.choose()
	v.expiration()
	v.injectedLabel()
}

// roleLabel refuses a role that does not exist. In a managed namespace a misspelt "none" would otherwise give a helper the
// submitter's identity without a word.
func (v *review) roleLabel() {
	role, there := v.pod.Meta.Labels.Get(wire.LabelRole)
	if !there || !v.req.Entry.managed() || role == wire.RolePublisher || role == wire.RoleNone {
		return
	}
	v.file(violation.Metadata, v.labelSpot(wire.LabelRole), sayRole())
}

// injectedLabel refuses a label that only the platform writes where the platform would not have written it. A template may
// carry an exported pod's label; its pods are judged.
func (v *review) injectedLabel() {
	value, there := v.pod.Meta.Labels.Get(wire.LabelInjected)
	if !there || v.req.Entry == EntryTemplate {
		return
	}
	known := value == injectedPublisher || value == injectedJob || value == injectedBoth
	if !known || (v.gear != nil && v.standing == outsider && labelHas(value, v.gear.role)) {
		v.file(violation.Metadata, v.labelSpot(wire.LabelInjected), sayInjectedLabel())
	}
}

// labelHas says whether the value of lanyard.dev/injected names a role.
func labelHas(value string, role Role) bool {
	return value == string(role) || value == injectedBoth
}

// labelWith returns the value that names the role besides what was named before.
func labelWith(value string, role Role) string {
	if value == "" || value == string(role) {
		return string(role)
	}
	return injectedBoth
}

// expiration reads the wanted lifetime: a whole number of seconds, clamped to what Kubernetes and the role allow.
func (v *review) expiration() {
	text, there := v.pod.Meta.Annotations.Get(wire.AnnotationExpiration)
	if !there {
		return
	}
	if text == "" || strings.Trim(text, "0123456789") != "" {
		v.file(violation.Metadata, v.annotation(wire.AnnotationExpiration), sayExpiration())
		return
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil { // digits only, so it is larger than any lifetime
		seconds = wire.MaxExpirationSeconds + 1
	}
	v.gear.expires = min(max(seconds, wire.MinExpirationSeconds), v.gear.token.MaxExpirationSeconds)
	if v.gear.expires != seconds {
		v.notes.clamped = v.gear.expires
	}
}

// labelSpot and annotation are the spots of one label and one annotation.
func (v *review) labelSpot(key string) spot {
	return v.at("metadata.labels["+key+"]", "label\x00"+key)
}

func (v *review) annotation(key string) spot {
	return v.at("metadata.annotations["+key+"]", "annotation\x00"+key)
}
