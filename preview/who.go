package preview

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate"
)

var podKind = mutate.GroupKind{Kind: "Pod"}

// neverServed are the namespaces that no entry of the webhook serves, whatever their labels say.
var neverServed = []string{"kube-system", "kube-public", "kube-node-lease"}

// Who says which entries of the webhook a document reaches. With Roles the person claims them, as if the namespace were
// labelled for them; else NamespaceLabels and the list of publishers decide, as selectors and matchConditions do in a
// cluster.
type Who struct {
	Roles           []mutate.Role
	NamespaceLabels map[string]string
}

// ParseRoles reads role names as a person gives them.
func ParseRoles(names []string) ([]mutate.Role, error) {
	var roles []mutate.Role
	for _, name := range names {
		role := mutate.Role(strings.TrimSpace(name))
		if role != mutate.Publisher && role != mutate.Job {
			return nil, fmt.Errorf("unknown role %q: the roles are %q and %q", name, mutate.Publisher, mutate.Job)
		}
		if !slices.Contains(roles, role) {
			roles = append(roles, role)
		}
	}
	return roles, nil
}

// managed says whether the document's namespace is one whose jobs act for their submitters.
func (a *admission) managed() bool {
	if a.Rules.Job == nil || slices.Contains(neverServed, a.namespace) {
		return false
	}
	if len(a.Who.Roles) > 0 {
		return slices.Contains(a.Who.Roles, mutate.Job)
	}
	return a.Who.NamespaceLabels[wire.LabelJobs] == wire.JobsManaged
}

// entries lists the webhook's entries that a pod reaches, in the order in which the API server calls them.
func (a *admission) entries(raw []byte) []mutate.Entry {
	var found []mutate.Entry
	if a.managed() {
		found = append(found, mutate.EntryJob)
	}
	if a.Rules.Publisher == nil || slices.Contains(neverServed, a.namespace) {
		return found
	}
	pod := podFacts(raw)
	switch {
	case len(a.Who.Roles) > 0:
		if slices.Contains(a.Who.Roles, mutate.Publisher) {
			found = append(found, a.claimed(pod))
		}
		return found
	case a.Who.NamespaceLabels[wire.LabelPublishers] == wire.PublishersEnabled && pod.role == wire.RolePublisher:
		found = append(found, mutate.EntryPublisher)
	}
	if slices.Contains(a.Rules.Publisher.Listed, a.namespace+"/"+pod.account) {
		found = append(found, mutate.EntryListed)
	}
	return found
}

// claimed is the entry of a pod that is a publisher because the person says so. Without the label that asks for the role it
// can only be a listed one: it is put on this document's list, and the person is told.
func (a *admission) claimed(pod facts) mutate.Entry {
	if pod.role == wire.RolePublisher {
		return mutate.EntryPublisher
	}
	a.note(fmt.Sprintf("without label %s=%s it is a publisher only where its service account is on the list of publishers", wire.LabelRole, wire.RolePublisher))
	listed := *a.Rules.Publisher
	listed.Listed = append(slices.Clone(listed.Listed), a.namespace+"/"+pod.account)
	a.Rules.Publisher = &listed
	return mutate.EntryListed
}

// facts are what selectors and matchConditions look at in a pod.
type facts struct {
	role    string
	account string
}

// podFacts reads them. A pod that cannot be read has none: the decision itself then says what is wrong with it.
func podFacts(raw []byte) facts {
	var pod struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
		Spec struct {
			ServiceAccountName string `json:"serviceAccountName"`
			ServiceAccount     string `json:"serviceAccount"` // the field's old name, which API servers still read
		} `json:"spec"`
	}
	if json.Unmarshal(raw, &pod) != nil {
		return facts{account: "default"}
	}
	f := facts{role: pod.Metadata.Labels[wire.LabelRole], account: pod.Spec.ServiceAccountName}
	if f.account == "" {
		f.account = pod.Spec.ServiceAccount
	}
	if f.account == "" {
		f.account = "default"
	}
	return f
}
