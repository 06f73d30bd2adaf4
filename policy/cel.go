package policy

import (
	"strings"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// The API server evaluates built-in objects without their empty fields, and a missing field is an error, which refuses.
// So every path below metadata and spec is walked with optional syntax. Kubernetes 1.32 knows no indexed loops, no slices
// and no flattening of lists; lists of paths are therefore joined and split again by newline, which no name can hold.

// quoted writes names as a CEL list in the policies' own quotes.
func quoted(names []string) string {
	parts := make([]string, len(names))
	for i, n := range names {
		parts[i] = "'" + n + "'"
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// label is the value of an object's label, or ”.
func label(object, key string) string {
	return object + ".metadata.?labels[?'" + key + "'].orValue('')"
}

// annotation is an object's annotation as an optional, so that absent and empty stay apart.
func annotation(object, key string) string {
	return object + ".metadata.?annotations[?'" + key + "']"
}

// pathTo walks from object ("object" or "oldObject") to a pod template's spec or metadata by kind. A kind that is neither
// a Pod nor a CronJob is taken to hold its template at spec.template, as the other built-in kinds do.
func pathTo(object, part string) string {
	return "request.kind.group == '' && request.kind.kind == 'Pod' ? " + object + ".?" + part + ".orValue({}) :\n" +
		"request.kind.kind == 'CronJob' ? " + object + ".?spec.?jobTemplate.?spec.?template.?" + part + ".orValue({}) :\n" +
		object + ".?spec.?template.?" + part + ".orValue({})"
}

// serviceAccount is the name of the account that the pod in object runs as.
const serviceAccount = "object.?spec.?serviceAccountName.orValue('') == '' ? 'default' : object.spec.serviceAccountName"

// controllerKinds lists the group/Kind of the pod's controller: no entry for a bare pod, one otherwise.
const controllerKinds = "object.metadata.?ownerReferences.orValue([]).filter(o, o.?controller.orValue(false))" +
	".map(o, (o.apiVersion.contains('/') ? o.apiVersion.split('/')[0] : '') + '/' + o.kind)"

// audiences lists the audience of every projected token in the pod, whatever the volume's name, every source looked at.
const projected = "object.?spec.?volumes.orValue([])"

// projects says whether any volume of the pod projects a token for an audience on the CEL list.
func projects(audiences string) string {
	return projected + ".exists(v, v.?projected.?sources.orValue([]).exists(s,\n" +
		"  s.?serviceAccountToken.?audience.orValue('') in " + audiences + "))"
}

// projectsOne says so of one audience. An empty one is a role that is off: it would match every ordinary token, which names
// no audience.
func projectsOne(audience string) string {
	return audience + " != '' && " + projects("["+audience+"]")
}

// mirror says whether the request is the kubelet's own mirror of a static pod. Anyone may write the annotation, so the
// caller must be a node.
const mirror = "'" + wire.AnnotationMirror + "' in object.metadata.?annotations.orValue({}) && " + byNode

// byNode says whether a kubelet is asking.
const byNode = "'system:nodes' in request.userInfo.?groups.orValue([])"

// admin says whether the caller is a platform admin, by RBAC.
const admin = "authorizer.group('" + wire.AdminGroup + "').resource('" + wire.AdminResource + "').check('" + wire.AdminVerb + "').allowed()"

// namespaceHas says whether the request's namespace bears the label. Only for validations: in a matchCondition
// namespaceObject is null.
func namespaceHas(key, value string) string {
	return "namespaceObject.metadata.?labels[?'" + key + "'].orValue('') == '" + value + "'"
}

// shortened bounds a string to what fits into a message (the API server drops messages over 5 KiB).
func shortened(s string) string {
	return "(size(" + s + ") > 2000 ? " + s + ".substring(0, 2000) + ' ...' : " + s + ")"
}
