//go:build unix

package chart

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/lanyard-k8s/lanyard/connector/config"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/exchange/settings"
	faults "github.com/lanyard-k8s/lanyard/internal/config"
)

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
	data, _ := find(objects, "ConfigMap", "lanyard-exchange").Object["data"].(map[string]any)
	if _, err := settings.Parse([]byte(data["exchange.yaml"].(string))); err != nil {
		t.Errorf("the exchange: %v", err)
	}
}
