package settings

import (
	"errors"
	"net/url"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/internal/config"
	"github.com/lanyard-k8s/lanyard/mutate"
)

func readPublisher(sec *config.Section, s *Settings) {
	s.Publishing = readEnabled(sec)
	s.Rules.Publisher = &mutate.PublisherRules{
		Token: readToken(sec, mutate.Token{
			Audience: wire.DefaultPublisherAudience, ExpirationSeconds: wire.DefaultPublisherExpirationSeconds,
			MaxExpirationSeconds: defaultPublisherMax, MountPath: wire.DefaultPublisherMountPath,
		}),
		Listed:      sec.Strings("listed", nil, checkAccount),
		CrossNode:   sec.Strings("crossNode", nil, checkUsername),
		CAConfigMap: sec.String("caConfigMap", ""),
	}
	checkConfigMap(sec, s.Rules.Publisher.CAConfigMap)
}

func readJob(sec *config.Section, s *Settings) {
	s.ManagedJobs = readEnabled(sec)
	s.Rules.Job = &mutate.JobRules{
		Token: readToken(sec, mutate.Token{
			Audience: wire.DefaultJobAudience, ExpirationSeconds: wire.DefaultJobExpirationSeconds,
			MaxExpirationSeconds: defaultJobMax, MountPath: wire.DefaultJobMountPath,
		}),
		BaseURL:     readBaseURL(sec, s.ManagedJobs),
		CAConfigMap: sec.Text("caConfigMap", wire.DefaultCAConfigMap),
	}
	checkConfigMap(sec, s.Rules.Job.CAConfigMap)
	s.JobKinds = readKinds(sec)
	for _, k := range s.JobKinds {
		s.Rules.Job.Kinds = append(s.Rules.Job.Kinds, mutate.GroupKind{Group: k.Group, Kind: k.Kind})
	}
}

func readEnabled(sec *config.Section) bool {
	return sec.Required("enabled", "true or false, without quotes") && sec.Bool("enabled", false)
}

func readToken(sec *config.Section, absent mutate.Token) mutate.Token {
	t := mutate.Token{
		Audience:             sec.Text("audience", absent.Audience),
		ExpirationSeconds:    readSeconds(sec, "tokenExpirationSeconds", absent.ExpirationSeconds),
		MaxExpirationSeconds: readSeconds(sec, "maxTokenExpirationSeconds", absent.MaxExpirationSeconds),
		MountPath:            sec.Text("tokenMountPath", absent.MountPath),
	}
	if !sec.Has("maxTokenExpirationSeconds") {
		t.MaxExpirationSeconds = max(t.MaxExpirationSeconds, t.ExpirationSeconds)
	}
	if t.MaxExpirationSeconds < t.ExpirationSeconds {
		sec.Fault("maxTokenExpirationSeconds", "must be at least tokenExpirationSeconds (%d)", t.ExpirationSeconds)
	}
	if strings.ContainsFunc(t.Audience, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		sec.Fault("audience", "must not hold white space or control characters")
	}
	return t
}

// readSeconds holds a lifetime to what the API server accepts for a projected token, so that a number out of range is
// refused here and not at the first pod.
func readSeconds(sec *config.Section, key string, absent int64) int64 {
	return sec.Int(key, absent, wire.MinExpirationSeconds, wire.MaxExpirationSeconds)
}

// readBaseURL insists on https: the subject token travels there.
func readBaseURL(sec *config.Section, enabled bool) string {
	if enabled && !sec.Required("baseURL", "the https URL of the exchange as seen from job pods") {
		return ""
	}
	v := sec.Text("baseURL", "")
	if v == "" {
		return v
	}
	if u, err := url.Parse(v); err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		sec.Fault("baseURL", "must be an https URL with a host and without user, query or fragment; the subject token is sent there")
	}
	return v
}

func checkConfigMap(sec *config.Section, name string) {
	if name != "" && len(validation.IsDNS1123Subdomain(name)) > 0 {
		sec.Fault("caConfigMap", "must be a ConfigMap's name (a DNS-1123 subdomain)")
	}
}

func checkAccount(s string) error {
	_, err := wire.ParseAccount(s)
	return err
}

func checkUsername(s string) error {
	_, err := wire.ParseUsername(s)
	return err
}

// checkCreator accepts any one identity that may create pods: a service account, or a component such as
// system:kube-controller-manager. Patterns and the names that stand for everybody are refused.
func checkCreator(s string) error {
	switch {
	case strings.HasPrefix(s, wire.UsernamePrefix):
		return checkUsername(s)
	case s == "" || strings.ContainsFunc(s, unicode.IsSpace) || strings.ContainsAny(s, "*?[]"):
		return errors.New("must be one username, written exactly; patterns are not taken")
	case s == "system:anonymous" || s == "system:authenticated" || s == "system:unauthenticated":
		return errors.New("stands for everybody; name the controller")
	}
	return nil
}
