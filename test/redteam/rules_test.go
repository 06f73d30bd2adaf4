//go:build unix

package redteam

import (
	"testing"

	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/webhook/settings"
)

// rules are the webhook's rules as the chart configures them here, with more of the configuration file on top.
func rules(t *testing.T, more string) mutate.Rules {
	t.Helper()
	s, err := settings.Parse([]byte(`
publisher: {enabled: true, audience: platform-connector.nvsentinel.nvidia.com, tokenExpirationSeconds: 3600, maxTokenExpirationSeconds: 86400,
  tokenMountPath: /var/run/secrets/nvsentinel/platform-connector, listed: [red-listed/monitor], crossNode: []}
job: {enabled: true, audience: nemo-platform, tokenExpirationSeconds: 600, maxTokenExpirationSeconds: 3600,
  tokenMountPath: /var/run/secrets/nemo-platform/workload, baseURL: "https://lanyard-exchange.lanyard-system.svc:8443", caConfigMap: lanyard-ca}
` + more))
	if err != nil {
		t.Fatal(err)
	}
	return s.Rules
}
