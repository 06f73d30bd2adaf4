package conditions

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// Refuse says what becomes of an event whatever the node's conditions are: Skipped, or a refusal of its check's name. It is
// empty for an event that Decide has to look at.
func (r Rules) Refuse(e *healtheventv1.HealthEvent) sink.Outcome {
	if !remedies(e.GetProcessingStrategy()) {
		return sink.Skipped
	}
	return r.refusedName(e.GetCheckName())
}

// remedies says whether a strategy is for this sink. One that is not known asks for something that nobody here can do.
func remedies(s healtheventv1.ProcessingStrategy) bool {
	return s == healtheventv1.ProcessingStrategy_UNSPECIFIED || s == healtheventv1.ProcessingStrategy_EXECUTE_REMEDIATION
}

var conditionType = regexp.MustCompile(wire.ConditionTypePattern)

// refusedName says why a check's name names no condition of ours, or nothing. The kubelet's are refused in any case of
// their letters: people would take them for each other.
func (r Rules) refusedName(name string) sink.Outcome {
	switch {
	case !conditionType.MatchString(name):
		return sink.RefusedName
	case slices.ContainsFunc(wire.KubeletConditions(), func(k string) bool { return strings.EqualFold(k, name) }), slices.Contains(r.Foreign, name):
		return sink.RefusedForeign
	default:
		return ""
	}
}

// ours says whether a condition bears a reason that we write.
func ours(c corev1.NodeCondition) bool {
	typ := string(c.Type)
	return c.Reason == typ+wire.ReasonHealthySuffix || c.Reason == typ+wire.ReasonUnhealthySuffix
}
