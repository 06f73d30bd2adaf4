package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/connector/config"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

// TestEveryKey goes through the table of keys: absent, null, accepted, anything else.
func TestEveryKey(t *testing.T) {
	t.Parallel()
	type table struct {
		accepted map[string]func(*config.Auth) // by the JSON value; "-" is absent
		refused  []string
	}
	same := func(*config.Auth) {}
	notBool := []string{"null", `"yes"`, `"True"`, `"TRUE"`, `"False"`, "1", "0", `""`, `" true"`, "[]", "{}", "1.0"}
	for key, tc := range map[string]table{
		"enableNodeBindingAuth": {
			map[string]func(*config.Auth){"true": same, `"true"`: same, `"tru\u0065"`: same}, append([]string{"-"}, notBool...),
		},
		"AuthFailOpenOnUnavailable": {
			map[string]func(*config.Auth){
				"-": same, "false": same, `"false"`: same,
				"true":   func(a *config.Auth) { a.FailOpen = true },
				`"true"`: func(a *config.Auth) { a.FailOpen = true },
			}, notBool,
		},
		"AuthMode": {
			map[string]func(*config.Auth){
				"-": same, `"enforce"`: same, `"audit"`: func(a *config.Auth) { a.Mode = nodebinding.Audit },
			},
			[]string{"null", `"Audit"`, `"ENFORCE"`, `""`, `"off"`, `"disabled"`, `" audit"`, "true", "1", "[]", "{}", `["audit"]`},
		},
		"AuthAudience": {
			map[string]func(*config.Auth){`"x"`: func(a *config.Auth) { a.Audience = "x" }},
			[]string{"-", "null", `""`, "1", "true", "[]", `["x"]`, "{}"},
		},
		"AuthCrossNodeServiceAccounts": {
			map[string]func(*config.Auth){
				"[]":              same,
				`["` + csp + `"]`: func(a *config.Auth) { a.CrossNode = []string{csp} },
				`["` + slurm + `","` + csp + `","` + slurm + `"]`: func(a *config.Auth) { a.CrossNode = []string{slurm, csp} },
			},
			[]string{"-", "null", `""`, `"` + csp + `"`, "{}", "true", "0"},
		},
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			for value, change := range tc.accepted {
				want := good()
				change(&want)
				got, err := config.ParseAuth([]byte(file(map[string]string{key: value})), socket(), nil)
				if err != nil {
					t.Errorf("%s refused: %v", value, err)
				} else if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", value, diff)
				}
			}
			for _, value := range tc.refused {
				got, err := config.ParseAuth([]byte(file(map[string]string{key: value})), socket(), nil)
				if diff := cmp.Diff([]string{key}, faultsOf(t, err)); diff != "" {
					t.Errorf("faults of %s (-want +got):\n%s", value, diff)
				}
				if diff := cmp.Diff(config.Auth{}, got); diff != "" {
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
	_, err := config.ParseAuth([]byte(raw), config.Process{Role: nodebinding.Socket}, []string{ownName})
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
	_, err := config.ParseAuth([]byte(file(map[string]string{"AuthCrossNodeServiceAccounts": "null"})), socket(), nil)
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
			_, err := config.ParseAuth([]byte(tc.raw), socket(), nil)
			if diff := cmp.Diff(tc.want, faultsOf(t, err)); diff != "" {
				t.Errorf("faults (-want +got):\n%s\n%v", diff, err)
			}
		})
	}
}
