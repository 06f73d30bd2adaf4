//go:build unix

package chart

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/connector/config"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
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
			if profile != "exchange-postgres" && (read == 0 || auth == nil) {
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
