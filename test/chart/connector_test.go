//go:build unix

package chart

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/yaml"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/connector/config"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	faults "github.com/lanyard-k8s/lanyard/internal/config"
)

// processes are the roles, and the ConfigMaps that their settings files stand in.
func processes() map[string]config.Process {
	return map[string]config.Process{
		"lanyard-connector-socket":     {Role: nodebinding.Socket, NodeName: "node-a"},
		"lanyard-connector-deployment": {Role: nodebinding.Deployment},
	}
}

// fileOf is a file in a rendered ConfigMap; nil if that is not rendered.
func fileOf(t *testing.T, profile, configMap, key string, args ...string) []byte {
	t.Helper()
	object := find(render(t, profile, args...), "ConfigMap", configMap)
	if object == nil {
		return nil
	}
	data, _ := object.Object["data"].(map[string]any)
	text, found := data[key].(string)
	if !found {
		t.Fatalf("ConfigMap %s has no %s", configMap, key)
	}
	return []byte(text)
}

// TestTheConnectorTakesItsConfiguration gives both rendered files of every profile to the program's own loader.
func TestTheConnectorTakesItsConfiguration(t *testing.T) {
	t.Parallel()
	for profile := range profiles(t) {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			auth, read := fileOf(t, profile, "lanyard-connector", "config.json"), 0
			for configMap, process := range processes() {
				settings := fileOf(t, profile, configMap, "settings.yaml")
				if settings == nil {
					continue
				}
				read++
				c, err := config.Parse(process, auth, settings)
				if err != nil {
					t.Errorf("%s: %v", configMap, err)
				}
				for _, name := range []string{wire.AccountSocketConnector, wire.AccountDeploymentConnector, "lanyard-webhook", "lanyard-exchange"} {
					if own := (wire.Account{Namespace: Namespace, Name: name}).Username(); !slices.Contains(c.Settings.ReleaseAccounts, own) {
						t.Errorf("%s: %s might be put on the cross-node list", configMap, own)
					}
				}
			}
			if read == 0 || auth == nil {
				t.Error("no connector is configured")
			}
		})
	}
}

// TestConfigJSON writes down what config.json is, by profile: its keys are the seed's, and its list the derived monitors
// first, sorted, then the extras, each once.
func TestConfigJSON(t *testing.T) {
	t.Parallel()
	on := func(list ...string) map[string]any {
		entries := []any{}
		for _, l := range list {
			entries = append(entries, "system:serviceaccount:"+l)
		}
		return map[string]any{
			"enableNodeBindingAuth": true, "AuthAudience": wire.DefaultPublisherAudience, "AuthMode": "enforce",
			"AuthFailOpenOnUnavailable": false, "AuthCrossNodeServiceAccounts": entries,
		}
	}
	audit, open := on("lanyard:csp-health-monitor", "lanyard:health-events-analyzer"), on("lanyard:csp-health-monitor", "tools:csp.monitor")
	audit["AuthMode"], open["AuthFailOpenOnUnavailable"] = "audit", true
	for profile, want := range map[string]map[string]any{
		"default":    on(),
		"audit":      audit,
		"deployment": open,
		"job-kinds":  on("lanyard:kubernetes-object-monitor", "tools:csp.monitor"),
		"disabled":   {"enableNodeBindingAuth": false},
	} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			var got map[string]any
			if err := json.Unmarshal(fileOf(t, profile, "lanyard-connector", "config.json"), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("config.json (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheNodesWatchWhatTheyMayWatch holds the namespaces in the settings file against the RoleBindings.
func TestTheNodesWatchWhatTheyMayWatch(t *testing.T) {
	t.Parallel()
	for profile := range profiles(t) {
		raw := fileOf(t, profile, "lanyard-connector-socket", "settings.yaml")
		if raw == nil {
			continue
		}
		s, err := config.ParseSettings(raw, nodebinding.Socket)
		if err != nil {
			t.Errorf("%s: %v", profile, err)
		}
		var may []string
		for _, p := range permissions(t, profile) {
			if _, namespace, found := strings.Cut(p, " -> lanyard-connector-pods in "); found {
				may = append(may, namespace)
			}
		}
		if diff := cmp.Diff(may, s.Liveness.Namespaces, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-may +watches):\n%s", profile, diff)
		}
		if s.Liveness.Namespaces == nil && profile != "disabled" {
			t.Errorf("%s: every namespace would be watched, for which the account has no right", profile)
		}
	}
}

// TestThePublishersListIsTheDeploymentsOwn: who gets a token by being listed and who may call are two questions.
func TestThePublishersListIsTheDeploymentsOwn(t *testing.T) {
	t.Parallel()
	for profile, want := range map[string][]string{
		"job-kinds":  nil, // absent: everybody may call
		"deployment": {"system:serviceaccount:gpu:monitor", "system:serviceaccount:gpu:another"},
		"forward":    {"system:serviceaccount:lanyard:lanyard-connector"},
	} {
		s, err := config.ParseSettings(fileOf(t, profile, "lanyard-connector-deployment", "settings.yaml"), nodebinding.Deployment)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, s.Publishers); diff != "" {
			t.Errorf("%s (-want +got):\n%s", profile, diff)
		}
	}
}

// TestBadConnectorConfigurationIsRefused gives the mistakes of the values to the connector's loader: it is as strict as the
// chart.
func TestBadConnectorConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	auth := fileOf(t, "socket", "lanyard-connector", "config.json")
	settings := map[string][]byte{
		"":           fileOf(t, "socket", "lanyard-connector-socket", "settings.yaml"),
		"deployment": fileOf(t, "deployment", "lanyard-connector-deployment", "settings.yaml"),
	}
	for _, tc := range refusals(t) {
		if tc.Auth == nil && tc.Settings == nil {
			continue
		}
		t.Run(tc.Name, func(t *testing.T) {
			t.Parallel()
			process := config.Process{Role: nodebinding.Socket, NodeName: "node-a"}
			if tc.Role == "deployment" {
				process = config.Process{Role: nodebinding.Deployment}
			}
			_, err := config.Parse(process, patched(t, auth, tc.Auth), patched(t, settings[tc.Role], tc.Settings))
			var found faults.Faults
			if !errors.As(err, &found) {
				t.Fatalf("the loader does not refuse it: %v", err)
			}
			for _, f := range found {
				if f.Path == tc.AuthAt+tc.SettingsAt {
					return
				}
			}
			t.Errorf("no fault at %s: %v", tc.AuthAt+tc.SettingsAt, err)
		})
	}
}

// patched is a file, YAML or JSON, with a patch merged into it; a value of "-" removes its key.
func patched(t *testing.T, file []byte, patch map[string]any) []byte {
	t.Helper()
	var content map[string]any
	if err := yaml.Unmarshal(file, &content); err != nil {
		t.Fatal(err)
	}
	merge(content, patch)
	for k, v := range content {
		if v == "-" {
			delete(content, k)
		}
	}
	raw, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestTheSchemaKnowsTheSettings holds the keys that the values pass on against those that the loader takes.
func TestTheSchemaKnowsTheSettings(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--set", "connector.socket.review.qp=1"}, {"--set", "connector.socket.limits.maxStream=1"}, {"--set", "connector.deployment.liveness.silence=1"},
	} {
		if message := refuse(t, args...); !strings.Contains(message, "specifications of the schema") {
			t.Errorf("%v: %s", args, message)
		}
	}
	everything := []string{"-f", "testdata/everything.yaml"}
	out, err := findHelm(t).Template(t.Context(), everything...)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := Objects(out)
	if err != nil {
		t.Fatal(err)
	}
	for configMap, process := range processes() {
		data, _ := find(objects, "ConfigMap", configMap).Object["data"].(map[string]any)
		if _, err := config.ParseSettings([]byte(data["settings.yaml"].(string)), process.Role); err != nil {
			t.Errorf("%s: %v", configMap, err)
		}
	}
}
