package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	connectorconfig "github.com/lanyard-k8s/lanyard/connector/config"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/internal/config"
)

const (
	audience = "platform-connector.nvsentinel.nvidia.com"
	csp      = "system:serviceaccount:nvsentinel:csp-health-monitor"
	slurm    = "system:serviceaccount:nvsentinel:slurm-drain-monitor"
	ownName  = "system:serviceaccount:nvsentinel:lanyard-connector"
)

func socket() connectorconfig.Process {
	return connectorconfig.Process{Role: nodebinding.Socket, NodeName: "node-a"}
}

func deployment() connectorconfig.Process {
	return connectorconfig.Process{Role: nodebinding.Deployment}
}

// file renders a config.json from a good one with some members changed; a value of "-" leaves the member out.
func file(changes map[string]string) string {
	members := map[string]string{
		"enableNodeBindingAuth": "true", "AuthAudience": `"` + audience + `"`, "AuthCrossNodeServiceAccounts": "[]",
		"AuthMode": "-", "AuthFailOpenOnUnavailable": "-",
	}
	for k, v := range changes {
		members[k] = v
	}
	var parts []string
	for k, v := range members {
		if v != "-" {
			parts = append(parts, `"`+k+`": `+v)
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func good() connectorconfig.Auth {
	return connectorconfig.Auth{Mode: nodebinding.Enforce, Audience: audience, CrossNode: []string{}}
}

// faultsOf returns the paths of all faults, in order.
func faultsOf(t *testing.T, err error) []string {
	t.Helper()
	var faults config.Faults
	if err == nil {
		return nil
	}
	if !errors.As(err, &faults) {
		t.Fatalf("not a list of faults: %v", err)
	}
	var paths []string
	for _, f := range faults {
		paths = append(paths, f.Path)
	}
	return paths
}

// TestEveryKey goes through the table of keys: absent, null, accepted, anything else.
func TestEveryKey(t *testing.T) {
	t.Parallel()
	type table struct {
		accepted map[string]func(*connectorconfig.Auth) // by the JSON value; "-" is absent
		refused  []string
	}
	same := func(*connectorconfig.Auth) {}
	notBool := []string{"null", `"yes"`, `"True"`, `"TRUE"`, `"False"`, "1", "0", `""`, `" true"`, "[]", "{}", "1.0"}
	for key, tc := range map[string]table{
		"enableNodeBindingAuth": {
			map[string]func(*connectorconfig.Auth){"true": same, `"true"`: same, `"tru\u0065"`: same}, append([]string{"-"}, notBool...),
		},
		"AuthFailOpenOnUnavailable": {
			map[string]func(*connectorconfig.Auth){
				"-": same, "false": same, `"false"`: same,
				"true":   func(a *connectorconfig.Auth) { a.FailOpen = true },
				`"true"`: func(a *connectorconfig.Auth) { a.FailOpen = true },
			}, notBool,
		},
		"AuthMode": {
			map[string]func(*connectorconfig.Auth){
				"-": same, `"enforce"`: same, `"audit"`: func(a *connectorconfig.Auth) { a.Mode = nodebinding.Audit },
			},
			[]string{"null", `"Audit"`, `"ENFORCE"`, `""`, `"off"`, `"disabled"`, `" audit"`, "true", "1", "[]", "{}", `["audit"]`},
		},
		"AuthAudience": {
			map[string]func(*connectorconfig.Auth){`"x"`: func(a *connectorconfig.Auth) { a.Audience = "x" }},
			[]string{"-", "null", `""`, "1", "true", "[]", `["x"]`, "{}"},
		},
		"AuthCrossNodeServiceAccounts": {
			map[string]func(*connectorconfig.Auth){
				"[]":              same,
				`["` + csp + `"]`: func(a *connectorconfig.Auth) { a.CrossNode = []string{csp} },
				`["` + slurm + `","` + csp + `","` + slurm + `"]`: func(a *connectorconfig.Auth) { a.CrossNode = []string{slurm, csp} },
			},
			[]string{"-", "null", `""`, `"` + csp + `"`, "{}", "true", "0"},
		},
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			for value, change := range tc.accepted {
				want := good()
				change(&want)
				got, err := connectorconfig.ParseAuth([]byte(file(map[string]string{key: value})), socket(), nil)
				if err != nil {
					t.Errorf("%s refused: %v", value, err)
				} else if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", value, diff)
				}
			}
			for _, value := range tc.refused {
				got, err := connectorconfig.ParseAuth([]byte(file(map[string]string{key: value})), socket(), nil)
				if diff := cmp.Diff([]string{key}, faultsOf(t, err)); diff != "" {
					t.Errorf("faults of %s (-want +got):\n%s", value, diff)
				}
				if diff := cmp.Diff(connectorconfig.Auth{}, got); diff != "" {
					t.Errorf("%s is refused and returned (-want +got):\n%s", value, diff)
				}
			}
		})
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	raw := `{
  "enableNodeBindingAuth": "yes",
  "AuthMode": null,
  "AuthFailOpenOnUnavailable": 1,
  "AuthCrossNodeServiceAccounts": [
    "` + csp + `",
    " ` + csp + `",
    7,
    "` + ownName + `"
  ]
}`
	_, err := connectorconfig.ParseAuth([]byte(raw), connectorconfig.Process{Role: nodebinding.Socket}, []string{ownName})
	want := `8 faults:
  enableNodeBindingAuth: must be true or false, or exactly "true" or "false" (line 2)
  AuthMode: is null; write the value that you mean (line 3)
  AuthFailOpenOnUnavailable: must be true or false, or exactly "true" or "false" (line 4)
  AuthCrossNodeServiceAccounts[1]: must be a canonical username, "system:serviceaccount:<namespace>:<name>" and so written exactly (line 7)
  AuthCrossNodeServiceAccounts[2]: must be a string (line 8)
  AuthCrossNodeServiceAccounts[3]: is one of Lanyard's own service accounts, which never report about other nodes (line 9)
  AuthAudience: must be given; there is no default
  NODE_NAME: the environment must name the node that the connector runs on (fieldRef spec.nodeName)`
	if err == nil {
		t.Fatal("accepted")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheNullListIsToldToBeWrittenEmpty(t *testing.T) {
	t.Parallel()
	_, err := connectorconfig.ParseAuth([]byte(file(map[string]string{"AuthCrossNodeServiceAccounts": "null"})), socket(), nil)
	if err == nil || !strings.Contains(err.Error(), "AuthCrossNodeServiceAccounts") || !strings.Contains(err.Error(), "write []") {
		t.Errorf("%v names no way out", err)
	}
}

func TestTheFileAsAWhole(t *testing.T) {
	t.Parallel()
	whole := file(nil)
	for name, tc := range map[string]struct {
		raw  string
		want []string // the faults' paths; none means accepted
	}{
		"white space around":                   {"\n " + whole + "\n\n", nil},
		"keys of other tools":                  {file(map[string]string{"StoreConnector": `{"enabled": null}`, "x": "[1,2]"}), nil},
		"equal keys within another tool's key": {file(map[string]string{"other": `{"a":1,"a":2}`}), nil},
		"another tool's key twice":             {whole[:len(whole)-1] + `, "x": 1, "x": 2}`, nil},
		"nothing":                              {"", []string{""}},
		"white space":                          {" \n", []string{""}},
		"no object":                            {`["enableNodeBindingAuth"]`, []string{""}},
		"null":                                 {"null", []string{""}},
		"a brace too few":                      {whole[:len(whole)-1], []string{""}},
		"a comma too many":                     {whole[:len(whole)-1] + ",}", []string{""}},
		"a comment":                            {"// ours\n" + whole, []string{""}},
		"a byte order mark":                    {"\ufeff" + whole, []string{""}},
		"a second object":                      {whole + whole, []string{""}},
		"a second value":                       {whole + " null", []string{""}},
		"words behind":                         {whole + "\nenableNodeBindingAuth: false", []string{""}},
		"YAML":                                 {"enableNodeBindingAuth: false", []string{""}},
		"one of our keys twice":                {whole[:len(whole)-1] + `, "AuthAudience": "x"}`, []string{"AuthAudience"}},
		"one of our keys twice, alike":         {whole[:len(whole)-1] + `, "AuthCrossNodeServiceAccounts": []}`, []string{"AuthCrossNodeServiceAccounts"}},
		"one of our keys twice, escaped":       {whole[:len(whole)-1] + `, "\u0041uthAudience": "x"}`, []string{"AuthAudience"}},
		"switched off once and on once":        {`{"enableNodeBindingAuth": false, ` + whole[1:], []string{"enableNodeBindingAuth"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := connectorconfig.ParseAuth([]byte(tc.raw), socket(), nil)
			if diff := cmp.Diff(tc.want, faultsOf(t, err)); diff != "" {
				t.Errorf("faults (-want +got):\n%s\n%v", diff, err)
			}
		})
	}
}

func TestDisabled(t *testing.T) {
	t.Parallel()
	want := connectorconfig.Auth{Mode: nodebinding.Disabled, Warnings: []connectorconfig.Warning{connectorconfig.WarnDisabled}}
	for name, raw := range map[string]string{
		"alone":                   `{"enableNodeBindingAuth": false}`,
		"as a word":               `{"enableNodeBindingAuth": "false"}`,
		"nothing else is read":    `{"enableNodeBindingAuth": false, "AuthMode": null, "AuthAudience": 1, "AuthCrossNodeServiceAccounts": "x"}`,
		"not even what is double": `{"enableNodeBindingAuth": false, "AuthMode": "audit", "AuthMode": "enforce"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := connectorconfig.ParseAuth([]byte(raw), connectorconfig.Process{Role: nodebinding.Socket}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" || got.Enabled() {
				t.Errorf("enabled %v (-want +got):\n%s", got.Enabled(), diff)
			}
		})
		t.Run(name+", deployment", func(t *testing.T) {
			t.Parallel()
			_, err := connectorconfig.ParseAuth([]byte(raw), deployment(), nil)
			if diff := cmp.Diff([]string{"enableNodeBindingAuth"}, faultsOf(t, err)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
	if (connectorconfig.Auth{}).Mode == nodebinding.Disabled {
		t.Error("the zero Auth is disabled")
	}
}

func TestDeploymentWarnsAndEnforces(t *testing.T) {
	t.Parallel()
	want := good()
	want.Warnings = []connectorconfig.Warning{connectorconfig.WarnDeploymentEnforces}
	for name, changes := range map[string]map[string]string{
		"audit":                {"AuthMode": `"audit"`},
		"fail-open":            {"AuthFailOpenOnUnavailable": `"true"`},
		"both, warned of once": {"AuthMode": `"audit"`, "AuthFailOpenOnUnavailable": "true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := connectorconfig.ParseAuth([]byte(file(changes)), deployment(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	got, err := connectorconfig.ParseAuth([]byte(file(nil)), deployment(), nil)
	if diff := cmp.Diff(good(), got); err != nil || diff != "" {
		t.Errorf("plain: %v (-want +got):\n%s", err, diff)
	}
}

func TestNodeName(t *testing.T) {
	t.Parallel()
	for node, want := range map[string][]string{
		"node-a": nil, "gpu-7.example.com": nil, "": {"NODE_NAME"}, "Node-A": {"NODE_NAME"}, "node-a\n": {"NODE_NAME"}, " node-a": {"NODE_NAME"}, "a b": {"NODE_NAME"},
	} {
		_, err := connectorconfig.ParseAuth([]byte(file(nil)), connectorconfig.Process{Role: nodebinding.Socket, NodeName: node}, nil)
		if diff := cmp.Diff(want, faultsOf(t, err)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", node, diff)
		}
	}
}

func TestKeysThatDifferInCaseAreWarnedOf(t *testing.T) {
	t.Parallel()
	got, err := connectorconfig.ParseAuth([]byte(file(map[string]string{"authMode": `"audit"`})), socket(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := good()
	want.Warnings = []connectorconfig.Warning{`the key "authMode" is ignored; the connector reads "AuthMode"`}
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
		got, err := connectorconfig.ParseAuth(raw, socket(), []string{ownName})
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
