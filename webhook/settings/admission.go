package settings

import (
	"errors"
	"net/url"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/lanyard-k8s/lanyard/internal/config"
	"github.com/lanyard-k8s/lanyard/mutate"
)

// defaultSkip are the sidecars that other injectors add and that call no platform API.
func defaultSkip() []string {
	return []string{"istio-proxy", "istio-init", "linkerd-proxy", "linkerd-init", "vault-agent", "vault-agent-init"}
}

func readAdmission(root *config.Section, s *Settings) {
	adm := root.Section("admission")
	s.Rules.Mode = mutate.Mode(adm.Enum("mode", string(mutate.Enforce), string(mutate.Enforce), string(mutate.Audit)))
	s.Rules.StrictNames = adm.Bool("strictNames", false)
	s.Rules.ProtectEndpoints = adm.Bool("protectEndpoints", false)
	s.Rules.SkipContainers = root.Section("injection").Strings("skipContainers", defaultSkip(), containerName)
	s.Rules.DocsURL = root.Text("docsURL", DefaultDocsURL)
	if u, err := url.Parse(s.Rules.DocsURL); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		root.Fault("docsURL", "must be a http(s) URL; messages send people there")
	}
}

func readLimits(sec *config.Section, s *Settings) {
	s.Limits = Limits{
		MaxBodyBytes:     sec.Int("maxBodyBytes", DefaultMaxBodyBytes, 64<<10, 64<<20),
		MaxInFlight:      sec.Int("maxInFlight", DefaultMaxInFlight, 1, 1<<16),
		MaxInFlightBytes: sec.Int("maxInFlightBytes", DefaultMaxInFlightBytes, 64<<10, 1<<40),
	}
	if s.Limits.MaxInFlightBytes < s.Limits.MaxBodyBytes {
		sec.Fault("maxInFlightBytes", "must be at least limits.maxBodyBytes, or the largest allowed review could never be answered")
	}
}

func containerName(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return errors.New("must be a container name (a DNS-1123 label)")
	}
	return nil
}
