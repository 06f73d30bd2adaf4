package settings

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/internal/config"
	"github.com/lanyard-k8s/lanyard/policy"
)

// reconciling reads the section, but for the file of policies.
func reconciling(sec *config.Section) Reconcile {
	r := Reconcile{
		PoliciesFile: directory(sec, "policies"),
		Cluster:      sec.String("cluster", ""),
		MaxAge:       seconds(sec, "maxAgeSeconds", day, 60, 30*day),
		HardCap:      seconds(sec, "hardCapSeconds", 0, 0, 3650*day),
		Retention:    seconds(sec, "retentionSeconds", 30*day, 0, 3650*day),
		CAConfigMap:  sec.Text("caConfigMap", ""),
		CAFile:       directory(sec, "caFile"),
		CANamespaces: sec.Strings("caNamespaces", nil, namespaceName),
		CAPublishers: sec.Bool("caPublishers", true),
	}
	lease := sec.Text("lease", "")
	namespace, name, found := strings.Cut(lease, "/")
	if lease != "" && (!found || !wire.DNSLabel(namespace) || !wire.DNSSubdomain(name)) {
		sec.Fault("lease", `must be "namespace/name"`)
	} else {
		r.LeaseNamespace, r.Lease = namespace, name
	}
	if (r.CAConfigMap == "") != (r.CAFile == "") {
		sec.Fault("caConfigMap", "and caFile belong together; give both or neither")
	}
	if r.CAConfigMap != "" && !wire.DNSSubdomain(r.CAConfigMap) {
		sec.Fault("caConfigMap", "must be a ConfigMap's name")
	}
	if len(r.CANamespaces) > 0 && r.CAConfigMap == "" {
		sec.Fault("caNamespaces", "needs caConfigMap and caFile, which say what is kept there")
	}
	if sec.Has("caPublishers") && r.CAConfigMap == "" {
		sec.Fault("caPublishers", "needs caConfigMap and caFile, which say what is kept there")
	}
	return r
}

func namespaceName(name string) error {
	if !wire.DNSLabel(name) {
		return errors.New("must be the name of one namespace")
	}
	return nil
}

// loadPolicies reads the file that says what the installed policies are made of. The guards and the exchange must mean the same
// audience and the same submitters, or one would let through what the other does not expect.
func loadPolicies(s Settings) (policy.Settings, error) {
	file := s.Reconcile.PoliciesFile
	raw, err := os.ReadFile(file)
	if err != nil {
		return policy.Settings{}, fmt.Errorf("read the policies' settings: %w", err)
	}
	var p policy.Settings
	if err := json.Unmarshal(raw, &p, json.RejectUnknownMembers(true)); err != nil {
		return policy.Settings{}, fmt.Errorf("read the policies' settings: %s: %w", file, err)
	}
	var fs config.Faults
	if p.JobAudience != s.Rules.ClientID {
		fs = append(fs, config.Fault{Path: "jobAudience", Message: fmt.Sprintf("must be the exchange's clientID, %q", s.Rules.ClientID)})
	}
	if given, allowed := sorted(p.Submitters), sorted(s.Rules.SystemSubjects); !slices.Equal(given, allowed) {
		fs = append(fs, config.Fault{Path: "submitters", Message: "must be the accounts of the exchange's allowedSubmitterServiceAccounts"})
	}
	if !p.Jobs || len(p.Kinds) == 0 {
		fs = append(fs, config.Fault{Path: "jobs", Message: "must be true, with at least one kind, since reconciling is on"})
	}
	if len(fs) > 0 {
		return policy.Settings{}, fmt.Errorf("%s: %w", file, fs)
	}
	return p, nil
}

func sorted(names []string) []string {
	out := slices.Clone(names)
	slices.Sort(out)
	return slices.Compact(out)
}
