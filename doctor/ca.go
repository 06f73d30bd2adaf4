package doctor

import (
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// keepsCA is the ClusterRole by which the chart lets the exchange keep the CA certificate's ConfigMap in a namespace. It is there
// when jobs.caConfigMap.manage is true and a namespace is listed.
const keepsCA = "lanyard-exchange-ca"

// examineCA looks for managed namespaces whose jobs cannot know the exchange's certificate: the exchange has no RoleBinding there
// by which it could keep the ConfigMap, or has not made it, and nobody else has.
func examineCA(s Snapshot) []Finding {
	job := s.Settings.Rules.Job
	if job == nil || job.CAConfigMap == "" || !s.installed(wire.AccountExchange) {
		return nil
	}
	bound := s.boundTo(wire.AccountExchange)
	keeps := slices.ContainsFunc(s.ClusterRoles, func(r rbacv1.ClusterRole) bool { return r.Name == keepsCA })
	var found []Finding
	for _, namespace := range slices.Sorted(maps.Keys(s.managed())) {
		f := Finding{Severity: Warn, Subject: "Namespace/" + namespace}
		switch here, may := s.CA[namespace], slices.Contains(bound, namespace); {
		case may && !here:
			f.Message = fmt.Sprintf("the exchange has not made ConfigMap %s yet: pods of jobs wait for it, or do not trust the exchange", job.CAConfigMap)
			f.Advice = "see whether the exchange is ready, and what its log says"
		case !may && !here:
			f.Message = fmt.Sprintf("no RoleBinding lets the exchange keep ConfigMap %s here, and it is not there: pods of jobs wait for it, or do not trust the exchange", job.CAConfigMap)
			f.Advice = "add the namespace to the chart's list jobs.namespaces, or hand out the CA certificate yourself (jobs.caConfigMap.manage: false)"
		case !may && keeps:
			f.Message = fmt.Sprintf("no RoleBinding lets the exchange keep ConfigMap %s here: it is outside the chart's lists, and stays as it is when the CA is renewed", job.CAConfigMap)
			f.Advice = "add the namespace to the chart's list jobs.namespaces"
		default:
			continue
		}
		found = append(found, f)
	}
	return found
}
