package settings_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/exchange/grant"
	"github.com/lanyard-k8s/lanyard/exchange/settings"
	"github.com/lanyard-k8s/lanyard/internal/config"
	"github.com/lanyard-k8s/lanyard/internal/mint"
)

const least = "issuer: https://x.example:8443/apis\nkeys: {secret: lanyard/lanyard-exchange-keys}\nstore: {directory: /var/lib/lanyard}\n"

func TestDefaults(t *testing.T) {
	t.Parallel()
	got, err := settings.Parse([]byte(least))
	if err != nil {
		t.Fatal(err)
	}
	want := settings.Settings{
		Rules: grant.Rules{
			Enabled: true, Issuer: "https://x.example:8443/apis", ClientID: "nemo-platform", Audiences: []string{"nemo-platform-api"},
			DefaultAudience: "nemo-platform-api", Scopes: []string{"openid", "email", "groups"}, TTL: 300 * time.Second,
		},
		BaseURL: "https://x.example:8443", Subjects: map[string]grant.Attributes{},
		Keys: settings.Keys{Namespace: "lanyard", Secret: "lanyard-exchange-keys", Alg: mint.ES256, Timing: mint.Timing{
			MaxAge: 300 * time.Second, TTL: 300 * time.Second, Leeway: time.Minute, Retention: time.Hour, Every: 720 * time.Hour,
		}},
		Store:   settings.Store{Driver: settings.SQLite, Directory: "/var/lib/lanyard", Connections: 8},
		Callout: settings.Callout{Audience: "nemo-platform-api", CheckRow: true, HeaderPrefix: "X-NMP-"},
		Admin:   settings.Admin{Enabled: true, Audience: "lanyard-admin"},
		Review: settings.Review{
			Timeout: 2 * time.Second, QPS: 100, Burst: 200, Concurrent: 16, Entries: 16384, FailuresBurst: 20, FailuresPerMinute: 60, WatchPods: true,
		},
		Limits:    settings.Limits{Requests: 1024, Hold: 5 * time.Second, HeldPerRow: 2, Held: 256},
		Reconcile: settings.Reconcile{MaxAge: 24 * time.Hour, Retention: 720 * time.Hour, CAPublishers: true},
		Replicas:  1, Drain: 20 * time.Second,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFaults names the keys at fault.
func TestFaults(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want []string
	}{
		"nothing":                          {"{}", []string{"issuer", "keys.secret", "store.directory"}},
		"http":                             {"issuer: http://x", []string{"issuer"}},
		"an issuer with a query":           {"issuer: https://x?y", []string{"issuer"}},
		"an issuer with a user":            {"issuer: https://u@x", []string{"issuer"}},
		"an issuer with dots":              {"issuer: https://x/a/../b", []string{"issuer"}},
		"an issuer without a host":         {"issuer: https:///x", []string{"issuer"}},
		"a null":                           {"enabled: null", []string{"enabled"}},
		"a word for a boolean":             {"enabled: 'true'", []string{"enabled"}},
		"an unknown key":                   {"issuers: x", []string{"issuers"}},
		"an unknown key below":             {"keys: {secret: a/b, alg: ES256}", []string{"keys.alg"}},
		"the subject audience issued":      {"audiences: [nemo-platform-api, nemo-platform]", []string{"audiences"}},
		"the default audience not issued":  {"audiences: [x]", []string{"audiences"}},
		"one audience for both":            {"clientID: nemo-platform-api", []string{"audiences"}},
		"a scope with a space":             {"scopes: ['a b']", []string{"scopes[0]"}},
		"a long life":                      {"tokenSeconds: 3601", []string{"tokenSeconds"}},
		"a short life":                     {"tokenSeconds: 29", []string{"tokenSeconds"}},
		"J6: retention below a life":       {"keys: {secret: a/b, retentionSeconds: 60}", []string{"keys.retentionSeconds"}},
		"a key that signs unknown":         {"keys: {secret: a/b, rotateEverySeconds: 600}", []string{"keys.rotateEverySeconds"}},
		"another algorithm":                {"keys: {secret: a/b, algorithm: HS256}", []string{"keys.algorithm"}},
		"two places for keys":              {"keys: {secret: a/b, directory: /x}", []string{"keys.secret"}},
		"a Secret without a namespace":     {"keys: {secret: b}", []string{"keys.secret"}},
		"a relative directory":             {"store: {directory: x}", []string{"store.directory"}},
		"postgres without a connection":    {"store: {driver: postgres}", []string{"store.connectionFile"}},
		"sqlite with a connection":         {"store: {directory: /x, connectionFile: /y}", []string{"store.connectionFile"}},
		"postgres with a directory":        {"store: {driver: postgres, connectionFile: /y, directory: /x}", []string{"store.directory"}},
		"replicas with sqlite":             {"replicas: 2", []string{"replicas"}},
		"replicas with a keys' directory":  {"replicas: 2\nstore: {driver: postgres, connectionFile: /y}\nkeys: {directory: /x}", []string{"replicas"}},
		"a callout for another audience":   {"authenticate: {audience: x}", []string{"authenticate.audience"}},
		"a header prefix without a hyphen": {"authenticate: {headerPrefix: X-NMP}", []string{"authenticate.headerPrefix"}},
		"a header prefix of a client's":    {"authenticate: {headerPrefix: Host-}", []string{"authenticate.headerPrefix"}},
		"admins with a job's audience":     {"admin: {audience: nemo-platform}", []string{"admin.audience"}},
		"an account that is none":          {"allowedSubmitterServiceAccounts: ['system:serviceaccount:a:b']", []string{"allowedSubmitterServiceAccounts[0]"}},
		"a longer hold":                    {"limits: {holdMilliseconds: 6000}", []string{"limits.holdMilliseconds"}},
		"more held":                        {"limits: {held: 257, heldPerPod: 3}", []string{"limits.held", "limits.heldPerPod"}},
		"a subject twice":                  {"claims: {subjects: [{subject: a}, {subject: a}]}", []string{"claims.subjects[1].subject"}},
		"a subject without a name":         {"claims: {subjects: [{email: a}]}", []string{"claims.subjects[0].subject"}},
		"replicas without a lease":         {"replicas: 2\nstore: {driver: postgres, connectionFile: /y}\nreconcile: {policies: /p}", []string{"reconcile.lease"}},
		"a lease without a namespace":      {"reconcile: {lease: x}", []string{"reconcile.lease"}},
		"a certificate without a file":     {"reconcile: {caConfigMap: lanyard-ca}", []string{"reconcile.caConfigMap"}},
		"namespaces for no certificate":    {"reconcile: {caNamespaces: [lanyard]}", []string{"reconcile.caNamespaces"}},
		"publishers for no certificate":    {"reconcile: {caPublishers: false}", []string{"reconcile.caPublishers"}},
		"a namespace that is a pattern":    {"reconcile: {caConfigMap: a, caFile: /a, caNamespaces: ['a*']}", []string{"reconcile.caNamespaces[0]"}},
		"all at once": {"issuer: http://x\nenabled: 1\nreplicas: 3\nstore: {directory: x}\nkeys: {algorithm: none, secret: a/b}",
			[]string{"enabled", "issuer", "keys.algorithm", "replicas", "store.directory"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := tc.text
			for line := range strings.SplitSeq(strings.TrimSpace(least), "\n") {
				if key, _, _ := strings.Cut(line, ":"); name != "nothing" && !strings.Contains("\n"+text, "\n"+key+":") {
					text += "\n" + line
				}
			}
			_, err := settings.Parse([]byte(text))
			var fs config.Faults
			if !errors.As(err, &fs) {
				t.Fatalf("got %v", err)
			}
			var got []string
			for _, f := range fs {
				got = append(got, f.Path)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ policies, want string }{
		"the same words":        {`{"jobs": true, "jobAudience": "nemo-platform", "kinds": [{"group": "batch", "kind": "Job"}]}`, ""},
		"another audience":      {`{"jobs": true, "jobAudience": "other", "kinds": [{"group": "batch", "kind": "Job"}]}`, "jobAudience: must be"},
		"other submitters":      {`{"jobs": true, "jobAudience": "nemo-platform", "submitters": ["x"], "kinds": [{}]}`, "submitters: must be"},
		"jobs off":              {`{"jobAudience": "nemo-platform"}`, "jobs: must be true"},
		"a word of a new chart": {`{"more": 1}`, "unknown object member"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, text := range map[string]string{"policies.json": tc.policies, "exchange.yaml": least + "reconcile: {policies: " + dir + "/policies.json}"} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s, err := settings.Load(filepath.Join(dir, "exchange.yaml"))
			if tc.want == "" && (err != nil || len(s.Reconcile.Policies.Kinds) != 1) {
				t.Errorf("got %v", err)
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	if _, err := settings.Load(t.TempDir() + "/none"); err == nil {
		t.Error("a file that is not there is read")
	}
}

func TestTheLogIsToldNothingOfPeople(t *testing.T) {
	t.Parallel()
	s, err := settings.Parse([]byte(least + "claims: {subjects: [{subject: alice, email: alice@example.com}]}"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(s.MarshalLog())
	if err != nil || strings.Contains(string(text), "alice") || !strings.Contains(string(text), `"People":1`) || !strings.Contains(string(text), "x.example") {
		t.Errorf("%v: %s", err, text)
	}
}
