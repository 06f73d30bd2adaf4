package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/lanyard-k8s/lanyard/connector/config"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

func TestRules(t *testing.T) {
	t.Parallel()
	auth := file(map[string]string{"AuthCrossNodeServiceAccounts": `["` + csp + `"]`, "AuthFailOpenOnUnavailable": "true"})
	for name, tc := range map[string]struct {
		process  config.Process
		settings string
		want     nodebinding.Rules
	}{
		"socket": {socket(), "{}", nodebinding.Rules{
			Role: nodebinding.Socket, OwnNode: "node-a", CrossNode: nodebinding.NewAccounts(csp), FailOpen: true,
		}},
		"socket, lenient": {socket(), "{strictLiveness: false}", nodebinding.Rules{
			Role: nodebinding.Socket, OwnNode: "node-a", CrossNode: nodebinding.NewAccounts(csp), FailOpen: true, LenientLiveness: true,
		}},
		"deployment": {config.Process{Role: nodebinding.Deployment, NodeName: "node-a"}, "{}", nodebinding.Rules{
			Role: nodebinding.Deployment, CrossNode: nodebinding.NewAccounts(csp),
		}},
		"deployment with publishers": {deployment(), "{publishers: [a/b]}", nodebinding.Rules{
			Role: nodebinding.Deployment, CrossNode: nodebinding.NewAccounts(csp), Publishers: nodebinding.NewAccounts("system:serviceaccount:a:b"),
		}},
		"deployment with an empty list": {deployment(), "{publishers: []}", nodebinding.Rules{
			Role: nodebinding.Deployment, CrossNode: nodebinding.NewAccounts(csp), Publishers: nodebinding.NewAccounts(),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := config.Parse(tc.process, []byte(auth), []byte(tc.settings))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, c.Rules()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	auth, bad := write("config.json", file(nil)), write("bad.json", `{"enableNodeBindingAuth": 1}`)
	own := write("own.json", file(map[string]string{"AuthCrossNodeServiceAccounts": `["` + ownName + `"]`}))
	off := write("off.json", `{"enableNodeBindingAuth": false}`)
	settings, unknown := write("settings.yaml", "releaseServiceAccounts: [nvsentinel/lanyard-connector]"), write("unknown.yaml", "x: 1")
	for name, tc := range map[string]struct {
		process        config.Process
		auth, settings string
		want           []string // parts of the error; none means accepted
	}{
		"both files":                             {socket(), auth, settings, nil},
		"no settings":                            {socket(), auth, "", nil},
		"no configuration":                       {socket(), filepath.Join(dir, "absent.json"), "", []string{"read configuration: "}},
		"settings that are not there":            {socket(), auth, filepath.Join(dir, "absent.yaml"), []string{"read settings: "}},
		"no role":                                {config.Process{NodeName: "node-a"}, auth, "", []string{"--role must be socket or deployment"}},
		"faults of both files":                   {socket(), bad, unknown, []string{"bad.json: ", "AuthAudience", "enableNodeBindingAuth", "unknown.yaml: ", "x: unknown key"}},
		"no node for the sink that writes to it": {config.Process{Role: nodebinding.Socket}, off, "", []string{"NODE_NAME: the environment must name the node"}},
		"Lanyard's own service account":          {socket(), own, settings, []string{"own.json: AuthCrossNodeServiceAccounts[0]: is one of Lanyard's own"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := config.Load(tc.process, tc.auth, tc.settings)
			if (err == nil) != (len(tc.want) == 0) || (err == nil) != (c.Auth.Audience != "") {
				t.Fatalf("audience %q, error %v", c.Auth.Audience, err)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

// TestTheChartsRefusalsAreOurs reads the values that the chart refuses, and expects the same of the key that the chart
// would have written them to. Booleans are left out: config.json takes their two exact words, the chart does not.
func TestTheChartsRefusalsAreOurs(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../test/chart/testdata/cases.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name   string
		Values struct {
			Global struct{ PlatformConnectorAuth map[string]any }
		}
	}
	if err := yaml.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	release := []string{"system:serviceaccount:lanyard:lanyard-connector"} // what the chart would write into the settings
	keys := map[string]string{"mode": config.KeyMode, "crossNodeServiceAccounts": config.KeyCrossNode}
	tried := map[string]int{}
	for _, c := range cases {
		for value, key := range keys {
			given, ok := c.Values.Global.PlatformConnectorAuth[value]
			if !ok || len(c.Values.Global.PlatformConnectorAuth) != 1 {
				continue
			}
			tried[key]++
			text, err := yaml.Marshal(given)
			if err != nil {
				t.Fatal(err)
			}
			asJSON, err := yaml.YAMLToJSON(text)
			if err != nil {
				t.Fatal(err)
			}
			_, err = config.ParseAuth([]byte(file(map[string]string{key: string(asJSON)})), socket(), release)
			if faults := faultsOf(t, err); len(faults) == 0 || !strings.HasPrefix(faults[0], key) {
				t.Errorf("%s: %s is taken as %s: %v", c.Name, asJSON, key, err)
			}
		}
	}
	for _, key := range keys {
		if tried[key] < 4 {
			t.Errorf("only %d of the chart's cases are about %s", tried[key], key)
		}
	}
}
