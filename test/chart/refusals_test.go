//go:build unix

package chart

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/lanyard-k8s/lanyard/internal/config"
	"github.com/lanyard-k8s/lanyard/webhook/settings"
)

// refusal is one case of testdata/cases.yaml; the file says what its fields mean.
type refusal struct {
	Name         string         `json:"name"`
	Values       map[string]any `json:"values"`
	Set          []string       `json:"set"`
	At           string         `json:"at"`
	Says         string         `json:"says"`
	Config       map[string]any `json:"config"`
	ConfigAt     string         `json:"configAt"`
	Auth         map[string]any `json:"auth"`
	AuthAt       string         `json:"authAt"`
	Settings     map[string]any `json:"settings"`
	SettingsAt   string         `json:"settingsAt"`
	Role         string         `json:"role"`
	TemplateOnly bool           `json:"templateOnly"`
	SchemaOnly   bool           `json:"schemaOnly"`
}

func refusals(t *testing.T) []refusal {
	t.Helper()
	raw, err := os.ReadFile("testdata/cases.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []refusal
	if err := yaml.UnmarshalStrict(raw, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		t.Fatal("there are no cases")
	}
	return cases
}

func TestBadValuesAreRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range refusals(t) {
		t.Run(tc.Name, func(t *testing.T) {
			t.Parallel()
			args := tc.arguments(t)
			if !tc.TemplateOnly {
				message := refuse(t, args...)
				if !strings.Contains(message, "specifications of the schema") || !strings.Contains(message, last(tc.At)) {
					t.Errorf("the schema does not refuse %s: %s", tc.At, message)
				}
			}
			if !tc.SchemaOnly {
				message := refuse(t, append(args, "--skip-schema-validation")...)
				if !strings.Contains(message, tc.At) || !strings.Contains(message, tc.Says) {
					t.Errorf("the template does not say of %s that it %q: %s", tc.At, tc.Says, message)
				}
				if strings.Contains(message, "lanyard/templates/tests/") {
					t.Errorf("the refusal names a test's template: %s", message)
				}
			}
		})
	}
}

func TestBadConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	good := configOf(t, "job-kinds")
	for _, tc := range refusals(t) {
		if tc.Config == nil {
			continue
		}
		t.Run(tc.Name, func(t *testing.T) {
			t.Parallel()
			var file map[string]any
			if err := yaml.Unmarshal(good, &file); err != nil {
				t.Fatal(err)
			}
			merge(file, tc.Config)
			raw, err := yaml.Marshal(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = settings.Parse(raw)
			var faults config.Faults
			if !errors.As(err, &faults) {
				t.Fatalf("the loader does not refuse it: %v", err)
			}
			for _, f := range faults {
				if f.Path == tc.ConfigAt {
					return
				}
			}
			t.Errorf("no fault at %s: %v", tc.ConfigAt, err)
		})
	}
}

func TestTheWebhookTakesItsConfiguration(t *testing.T) {
	t.Parallel()
	for name := range profiles(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := settings.Parse(configOf(t, name)); err != nil {
				t.Error(err)
			}
		})
	}
}

// arguments writes the case's values to a file, since what --set reads is not what -f reads.
func (r refusal) arguments(t *testing.T) []string {
	t.Helper()
	var args []string
	for _, s := range r.Set {
		if strings.HasPrefix(s, "--") {
			args = append(args, s)
		} else {
			args = append(args, "--set", s)
		}
	}
	if r.Values == nil {
		return args
	}
	raw, err := yaml.Marshal(r.Values)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return append(args, "-f", file)
}

// refuse renders and returns what helm says against it.
func refuse(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := findHelm(t).Template(t.Context(), args...); err != nil {
		return err.Error()
	}
	t.Errorf("rendered with %v", args)
	return ""
}

// configOf is the webhook's configuration file as a profile renders it.
func configOf(t *testing.T, profile string) []byte {
	t.Helper()
	object := find(render(t, profile), "ConfigMap", "lanyard-webhook")
	if object == nil {
		t.Fatal("there is no ConfigMap lanyard-webhook")
	}
	data, _ := object.Object["data"].(map[string]any)
	text, _ := data["webhook.yaml"].(string)
	return []byte(text)
}

func merge(into, patch map[string]any) {
	for k, v := range patch {
		inner, ok := v.(map[string]any)
		target, found := into[k].(map[string]any)
		if ok && found {
			merge(target, inner)
			continue
		}
		into[k] = v
	}
}

// last is the last key of a path, which is how the schema's messages and ours can be compared.
func last(path string) string {
	return strings.TrimRight(path[strings.LastIndex(path, ".")+1:], "[]0123456789")
}
