package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
)

// ruleSet numbers the rules that the code applies. It grows when the same request and rules get another answer.
const ruleSet = 1

// ruleVersion tells two audit entries apart that were decided under different rules: the number of the rule set, and the
// first bytes of a hash over the effective configuration.
func ruleVersion(r mutate.Rules) (string, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("hash rules: %w", err)
	}
	sum := sha256.Sum256(raw)
	return fmt.Sprintf("%d-%s", ruleSet, hex.EncodeToString(sum[:4])), nil
}

// annotationsOf are what the API server writes into its audit log, below the webhook's name.
func annotationsOf(d *mutate.Decision, version string) []annotation {
	out := make([]annotation, 0, 5)
	add := func(key, value string) {
		if value != "" {
			out = append(out, annotation{key, value})
		}
	}
	add(wire.AuditAudience, strings.Join(d.Audiences, ","))
	add(wire.AuditDecision, string(d.Outcome))
	add(wire.AuditReasons, strings.Join(reasonsOf(d.Violations), ","))
	add(wire.AuditRole, joinRoles(d.Roles))
	add(wire.AuditRuleVersion, version)
	return out
}

func joinRoles(roles []mutate.Role) string {
	switch len(roles) {
	case 0:
		return ""
	case 1:
		return string(roles[0])
	}
	words := make([]string, len(roles))
	for i, r := range roles {
		words[i] = string(r)
	}
	return strings.Join(words, ",")
}

// reasonsOf lists the distinct reasons in alphabetical order.
func reasonsOf(vs []violation.Violation) []string {
	if len(vs) == 0 {
		return nil
	}
	out := make([]string, len(vs))
	for i, v := range vs {
		out[i] = string(v.Reason)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
