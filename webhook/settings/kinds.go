package settings

import (
	"errors"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/lanyard-k8s/lanyard/internal/config"
	"github.com/lanyard-k8s/lanyard/mutate"
)

// kindName is what a kind looks like; resourceName its plural.
var (
	kindName     = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)
	resourceName = regexp.MustCompile(`^[a-z][a-z0-9]{0,62}$`)
)

func defaultKinds() []JobKind {
	return []JobKind{{
		Group: "batch", Kind: "Job", Resource: "jobs",
		PodCreators:    []string{"system:serviceaccount:kube-system:job-controller"},
		AdoptionLabels: []string{"batch.kubernetes.io/controller-uid", "controller-uid", "batch.kubernetes.io/job-name", "job-name"},
	}}
}

func defaultDelegates() []Delegate {
	return []Delegate{{
		Identity: "system:serviceaccount:kube-system:cronjob-controller",
		Parents:  []mutate.GroupKind{{Group: "batch", Kind: "CronJob"}},
	}}
}

func readKinds(job *config.Section) []JobKind {
	rows, given := job.Sections("kinds")
	if !given {
		return defaultKinds()
	}
	var out []JobKind
	seen := map[mutate.GroupKind]bool{}
	for _, row := range rows {
		k := readKind(row)
		gk := mutate.GroupKind{Group: k.Group, Kind: k.Kind}
		if k.Kind != "" && seen[gk] {
			row.Fault("kind", "this group and kind stand in the table twice; keep one row")
		}
		seen[gk] = true
		out = append(out, k)
	}
	return out
}

func readKind(row *config.Section) JobKind {
	k := JobKind{AdoptionLabels: row.Strings("adoptionLabels", nil, checkLabel)}
	if row.Required("group", "the API group, such as batch") {
		k.Group = row.Text("group", "")
		if k.Group != "" && len(validation.IsDNS1123Subdomain(k.Group)) > 0 {
			row.Fault("group", "must be an API group without a version, such as batch or kubeflow.org")
		}
	}
	if row.Required("kind", "the kind, such as Job") {
		k.Kind = row.Text("kind", "")
		if k.Kind != "" && !kindName.MatchString(k.Kind) {
			row.Fault("kind", "must be a kind as manifests write it, such as Job")
		}
	}
	k.Resource = row.Text("resource", strings.ToLower(k.Kind)+"s")
	if row.Has("resource") && !resourceName.MatchString(k.Resource) {
		row.Fault("resource", "must be the kind's plural in lower case, such as jobs")
	}
	const creators = "the usernames that may create pods of this kind; without them anybody's pod would pass for one"
	if row.Required("podCreators", creators) {
		k.PodCreators = row.Strings("podCreators", nil, checkCreator)
		if k.PodCreators != nil && len(k.PodCreators) == 0 {
			row.Fault("podCreators", "is empty; it must list %s", creators)
		}
	}
	return k
}

func readDelegates(root *config.Section, s *Settings) {
	rows, given := root.Sections("delegatingControllers")
	if !given {
		s.Delegating = defaultDelegates()
		return
	}
	for _, row := range rows {
		var d Delegate
		if row.Required("identity", "the controller's username") {
			d.Identity = row.Text("identity", "")
			if err := checkCreator(d.Identity); d.Identity != "" && err != nil {
				row.Fault("identity", "%v", err)
			}
		}
		if row.Required("parents", `the kinds it creates jobs from, as "group/Kind"`) {
			for _, p := range row.Strings("parents", nil, checkGroupKind) {
				group, kind, _ := strings.Cut(p, "/")
				d.Parents = append(d.Parents, mutate.GroupKind{Group: group, Kind: kind})
			}
		}
		s.Delegating = append(s.Delegating, d)
	}
}

func checkGroupKind(s string) error {
	group, kind, found := strings.Cut(s, "/")
	if !found || len(validation.IsDNS1123Subdomain(group)) > 0 || !kindName.MatchString(kind) {
		return errors.New(`must be "group/Kind" without a version, such as batch/CronJob`)
	}
	return nil
}

func checkLabel(s string) error {
	if len(validation.IsQualifiedName(s)) > 0 {
		return errors.New("must be a label key")
	}
	return nil
}
