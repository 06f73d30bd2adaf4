package settings

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
	"github.com/lanyard-k8s/lanyard/internal/config"
)

const day = 24 * 60 * 60

// Load reads a file, and the one of policies that it names. Faults are of type config.Faults.
func Load(file string) (Settings, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return Settings{}, fmt.Errorf("read configuration: %w", err)
	}
	s, err := Parse(raw)
	if err != nil {
		return Settings{}, fmt.Errorf("%s: %w", file, err)
	}
	if s.Reconcile.Enabled() {
		if s.Reconcile.Policies, err = loadPolicies(s); err != nil {
			return Settings{}, err
		}
	}
	return s, nil
}

// Parse reads a file's content.
func Parse(raw []byte) (Settings, error) {
	root := config.Parse(raw)
	s := Settings{
		Rules:     rules(root),
		Reconcile: reconciling(root.Section("reconcile")),
		Replicas:  root.Int("replicas", 1, 0, 64),
		Drain:     seconds(root, "drainSeconds", 20, 6, 600),
		Admin:     admin(root.Section("admin")),
		Review:    review(root.Section("review")),
		Limits:    limits(root.Section("limits")),
	}
	s.BaseURL = baseURL(root, s.Rules.Issuer)
	s.Subjects = subjects(root.Section("claims"), &s.Rules)
	s.Login = login(root.Section("login"))
	s.Docker = docker(root, s.Rules)
	s.Keys = signing(root.Section("keys"), s.Rules.TTL, s.Docker)
	s.Store = store(root.Section("store"), s.Docker)
	s.Callout = callout(root.Section("authenticate"), s.Rules)
	if s.Replicas > 1 && s.Store.Driver == SQLite {
		root.FaultAt("replicas", "must be 1 with store.driver sqlite: one process alone may use an SQLite database; use postgres")
	}
	if s.Replicas > 1 && s.Reconcile.Enabled() && s.Reconcile.Lease == "" {
		root.FaultAt("reconcile.lease", "must be given with several replicas, of which one at a time judges pods")
	}
	if s.Replicas > 1 && s.Keys.Directory != "" {
		root.FaultAt("replicas", "must be 1 with keys.directory: replicas share their keys in a Secret (keys.secret)")
	}
	if s.Admin.Audience == s.Rules.ClientID || slices.Contains(s.Rules.Audiences, s.Admin.Audience) {
		root.FaultAt("admin.audience", "must differ from clientID and from every audience, or a job's token would open the admins' door")
	}
	if err := root.Err(); err != nil {
		return Settings{}, err
	}
	if err := s.Rules.Validate(); err != nil { // says again what the keys were checked for; nothing may slip between the two
		return Settings{}, fmt.Errorf("check the rules: %w", err)
	}
	return s, nil
}

func rules(root *config.Section) grant.Rules {
	r := grant.Rules{
		Enabled:  root.Bool("enabled", true),
		ClientID: word(root, "clientID", wire.DefaultJobAudience),
		TTL:      seconds(root, "tokenSeconds", 300, int64(grant.MinLeft/time.Second), 3600),
		Scopes:   root.Strings("scopes", []string{"openid", "email", "groups"}, scopeWord),
	}
	if root.Required("issuer", "the https URL that stands in every token; it is never taken from a request") {
		r.Issuer = httpsURL(root, "issuer", "")
	}
	r.DefaultAudience = word(root, "workloadAudience", wire.DefaultWorkloadAudience)
	r.Audiences = root.Strings("audiences", []string{r.DefaultAudience}, visible)
	if !slices.Contains(r.Audiences, r.DefaultAudience) {
		root.Fault("audiences", "must hold workloadAudience, %q", r.DefaultAudience)
	}
	if slices.Contains(r.Audiences, r.ClientID) || r.DefaultAudience == r.ClientID {
		root.FaultAt("audiences", "must not hold clientID, which is the subject tokens' audience: an issued token could be exchanged again")
	}
	for _, s := range root.Strings("allowedSubmitterServiceAccounts", nil, func(s string) error { _, err := wire.ParseAccount(s); return err }) {
		if a, err := wire.ParseAccount(s); err == nil {
			r.SystemSubjects = append(r.SystemSubjects, a.Username())
		}
	}
	return r
}

// subjects reads what is known of submitters. The file is the one source: nobody else's word is as good as the stamp's.
func subjects(sec *config.Section, r *grant.Rules) map[string]grant.Attributes {
	r.Email, r.Groups = sec.Bool("email", false), sec.Bool("groups", false)
	items, _ := sec.Sections("subjects")
	out := make(map[string]grant.Attributes, len(items))
	for _, item := range items {
		item.Required("subject", "the submitter's name as in the stamp")
		name := item.Text("subject", "")
		if _, twice := out[name]; twice && name != "" {
			item.Fault("subject", "stands twice; remove one")
		}
		out[name] = grant.Attributes{Source: grant.Configured, Email: item.String("email", ""), Groups: item.Strings("groups", nil, nil)}
	}
	return out
}

func login(sec *config.Section) Login {
	return Login{
		Issuer:                httpsURL(sec, "issuer", ""),
		AuthorizationEndpoint: httpsURL(sec, "authorizationEndpoint", ""),
		TokenEndpoint:         httpsURL(sec, "tokenEndpoint", ""),
		DeviceEndpoint:        httpsURL(sec, "deviceAuthorizationEndpoint", ""),
		UserinfoEndpoint:      httpsURL(sec, "userinfoEndpoint", ""),
		ClientID:              word(sec, "clientID", ""),
		Audience:              word(sec, "audience", ""),
		DefaultScopes:         strings.Join(sec.Strings("defaultScopes", nil, scopeWord), " "),
	}
}

func callout(sec *config.Section, r grant.Rules) Callout {
	c := Callout{
		Audience: word(sec, "audience", r.DefaultAudience), CheckRow: sec.Bool("checkRow", true),
		HeaderPrefix: sec.Text("headerPrefix", wire.DefaultHeaderPrefix),
	}
	if sec.Has("audience") && !slices.Contains(r.Audiences, c.Audience) {
		sec.Fault("audience", "must be one of audiences")
	}
	if !headerPrefix(c.HeaderPrefix) {
		sec.Fault("headerPrefix", `must begin with "X-", hold letters, digits and hyphens, and end with a hyphen, such as "X-NMP-"`)
	}
	return c
}

func admin(sec *config.Section) Admin {
	return Admin{Enabled: sec.Bool("enabled", true), Audience: word(sec, "audience", wire.AudienceAdmin)}
}

func review(sec *config.Section) Review {
	return Review{
		Timeout:           milliseconds(sec, "timeoutMilliseconds", 2000, 100, 10_000),
		QPS:               sec.Int("qps", 100, 1, 1<<16),
		Burst:             sec.Int("burst", 200, 1, 1<<17),
		Concurrent:        sec.Int("concurrent", 16, 1, 1024),
		Entries:           sec.Int("cacheEntries", 16<<10, 16, 1<<22),
		FailuresBurst:     sec.Int("failuresBurst", 20, 1, 1<<20),
		FailuresPerMinute: sec.Int("failuresPerMinute", 60, 1, 1<<20),
		WatchPods:         sec.Bool("watchPods", true),
	}
}

func limits(sec *config.Section) Limits {
	return Limits{
		Requests:   sec.Int("requests", 1024, 1, 1<<20),
		Hold:       milliseconds(sec, "holdMilliseconds", 5000, 0, 5000),
		HeldPerRow: sec.Int("heldPerPod", 2, 1, 2),
		Held:       sec.Int("held", 256, 1, 256),
	}
}
