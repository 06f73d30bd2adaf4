package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/connector/config"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

func TestDisabled(t *testing.T) {
	t.Parallel()
	want := config.Auth{Mode: nodebinding.Disabled, Warnings: []config.Warning{config.WarnDisabled}}
	for name, raw := range map[string]string{
		"alone":                   `{"enableNodeBindingAuth": false}`,
		"as a word":               `{"enableNodeBindingAuth": "false"}`,
		"nothing else is read":    `{"enableNodeBindingAuth": false, "AuthMode": null, "AuthAudience": 1, "AuthCrossNodeServiceAccounts": "x"}`,
		"not even what is double": `{"enableNodeBindingAuth": false, "AuthMode": "audit", "AuthMode": "enforce"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := config.ParseAuth([]byte(raw), config.Process{Role: nodebinding.Socket}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" || got.Enabled() {
				t.Errorf("enabled %v (-want +got):\n%s", got.Enabled(), diff)
			}
		})
		t.Run(name+", deployment", func(t *testing.T) {
			t.Parallel()
			_, err := config.ParseAuth([]byte(raw), deployment(), nil)
			if diff := cmp.Diff([]string{"enableNodeBindingAuth"}, faultsOf(t, err)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
	if (config.Auth{}).Mode == nodebinding.Disabled {
		t.Error("the zero Auth is disabled")
	}
}

func TestDeploymentWarnsAndEnforces(t *testing.T) {
	t.Parallel()
	want := good()
	want.Warnings = []config.Warning{config.WarnDeploymentEnforces}
	for name, changes := range map[string]map[string]string{
		"audit":                {"AuthMode": `"audit"`},
		"fail-open":            {"AuthFailOpenOnUnavailable": `"true"`},
		"both, warned of once": {"AuthMode": `"audit"`, "AuthFailOpenOnUnavailable": "true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := config.ParseAuth([]byte(file(changes)), deployment(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	got, err := config.ParseAuth([]byte(file(nil)), deployment(), nil)
	if diff := cmp.Diff(good(), got); err != nil || diff != "" {
		t.Errorf("plain: %v (-want +got):\n%s", err, diff)
	}
}

func TestNodeName(t *testing.T) {
	t.Parallel()
	for node, want := range map[string][]string{
		"node-a": nil, "gpu-7.example.com": nil, "": {"NODE_NAME"}, "Node-A": {"NODE_NAME"}, "node-a\n": {"NODE_NAME"}, " node-a": {"NODE_NAME"}, "a b": {"NODE_NAME"},
	} {
		_, err := config.ParseAuth([]byte(file(nil)), config.Process{Role: nodebinding.Socket, NodeName: node}, nil)
		if diff := cmp.Diff(want, faultsOf(t, err)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", node, diff)
		}
	}
}

func TestKeysThatDifferInCaseAreWarnedOf(t *testing.T) {
	t.Parallel()
	got, err := config.ParseAuth([]byte(file(map[string]string{"authMode": `"audit"`})), socket(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := good()
	want.Warnings = []config.Warning{`the key "authMode" is ignored; the connector reads "AuthMode"`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzParseAuth states what holds of every file: what is accepted has an audience and canonical names, and node binding
// is never off unless the file says so.
func FuzzParseAuth(f *testing.F) {
	f.Add([]byte(file(nil)))
	f.Add([]byte(`{"enableNodeBindingAuth": false}`))
	f.Add([]byte(`{"enableNodeBindingAuth": null, "AuthMode": [}`))
	f.Add([]byte(file(map[string]string{"AuthMode": `"audit"`, "AuthCrossNodeServiceAccounts": `["` + csp + `"]`})))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := config.ParseAuth(raw, socket(), []string{ownName})
		switch {
		case err != nil:
			if len(faultsOf(t, err)) == 0 {
				t.Error("an error without faults")
			}
		case !got.Enabled():
			if !strings.Contains(string(raw), "fals") {
				t.Errorf("node binding is off in %q", raw)
			}
		case got.Audience == "" || got.CrossNode == nil || (got.Mode != nodebinding.Enforce && got.Mode != nodebinding.Audit):
			t.Errorf("%q is read as %+v", raw, got)
		}
	})
}
