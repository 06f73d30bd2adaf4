package doctor

import (
	"fmt"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// examineEndpoints counts the ready endpoints of every Service that an entry leads to.
func examineEndpoints(s Snapshot) []Finding {
	var found []Finding
	services := s.services()
	if len(services) == 0 {
		return []Finding{{
			Severity: Warn,
			Message:  "not examined: no entry of the webhook leads to a Service in the release's namespace",
			Advice:   "see what the checks of the entries say",
		}}
	}
	for _, service := range services {
		ready, nodes := s.ready(service)
		switch {
		case ready == 0:
			found = append(found, Finding{
				Severity: Fail, Subject: "Service/" + service,
				Message: "no endpoint is ready: the webhook cannot be called, and pods and jobs that need it are refused",
				Advice:  fmt.Sprintf("see why its pods are not ready: kubectl get pods -n %s", s.Release),
			})
		case ready == 1:
			found = append(found, Finding{
				Severity: Warn, Subject: "Service/" + service,
				Message: "one endpoint alone is ready: when its node goes, pods and jobs are refused until it is back",
				Advice:  "run at least two replicas (webhook.replicas)",
			})
		case len(nodes) == 1 && nodes[0] != "":
			found = append(found, Finding{
				Severity: Warn, Subject: "Service/" + service,
				Message: fmt.Sprintf("all %d ready endpoints are on node %s: when it goes, pods and jobs are refused until they are back", ready, nodes[0]),
				Advice:  "let them run on several nodes: see what keeps the scheduler from it (kubectl get nodes), then delete one of the pods",
			})
		}
	}
	return found
}

// services names the Services in the release's namespace that entries lead to.
func (s Snapshot) services() []string {
	var names []string
	for _, e := range s.entries() {
		if svc := e.client.Service; svc != nil && svc.Namespace == s.Release && !slices.Contains(names, svc.Name) {
			names = append(names, svc.Name)
		}
	}
	return names
}

// ready counts the addresses that are ready, and names the nodes that they are on; a node that is not told is an empty name.
func (s Snapshot) ready(service string) (count int, nodes []string) {
	var addresses []string
	for _, slice := range s.Endpoints {
		if slice.Namespace != s.Release || slice.Labels[discoveryv1.LabelServiceName] != service {
			continue
		}
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				addresses = append(addresses, e.Addresses...)
				node := ""
				if e.NodeName != nil {
					node = *e.NodeName
				}
				nodes = append(nodes, node)
			}
		}
	}
	slices.Sort(addresses)
	slices.Sort(nodes)
	return len(slices.Compact(addresses)), slices.Compact(nodes)
}
