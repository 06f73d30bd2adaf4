//go:build unix

package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestValuesOfAnOlderChartAreTaken renders the chart over values that lack what came last, as helm upgrade --reuse-values does: it takes
// the older chart's defaults in place of this one's. It said "nil pointer evaluating interface {}.fixedUser".
func TestValuesOfAnOlderChartAreTaken(t *testing.T) {
	t.Parallel()
	older := withValuesLacking(t, "podSecurity", "commonLabels", "webhook.spreadOverNodes", "webhook.serviceAnnotations",
		"webhook.serviceAccountAnnotations", "exchange.serviceAnnotations", "exchange.serviceAccountAnnotations",
		"connector.socket.serviceAccountAnnotations", "connector.deployment.serviceAnnotations", "connector.deployment.serviceAccountAnnotations")
	args := []string{"--set", "connector.deployment.enabled=true"}
	out, err := older.Template(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	want, err := findHelm(t).Template(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	if string(out) != string(want) {
		t.Error("an absent key means something else than its default")
	}
	objects, err := Objects(out)
	if err != nil {
		t.Fatal(err)
	}
	_, spec, _ := podOf(t, find(objects, "Deployment", "lanyard-webhook"))
	if spec.SecurityContext.RunAsUser == nil || *spec.SecurityContext.RunAsUser != 65532 {
		t.Errorf("the webhook's pods name no user: %v", spec.SecurityContext)
	}
	if c := spec.TopologySpreadConstraints; len(c) == 0 || c[0].WhenUnsatisfiable != corev1.ScheduleAnyway {
		t.Errorf("the webhook's replicas are spread by %v", c)
	}
}

// TestAMissingSectionIsNamed: values that lack a whole section are refused by its name, with the way out.
func TestAMissingSectionIsNamed(t *testing.T) {
	t.Parallel()
	for section, value := range chartValues(t) {
		if _, ok := value.(map[string]any); !ok || section == "global" || section == "podSecurity" || section == "commonLabels" {
			continue
		}
		t.Run(section, func(t *testing.T) {
			t.Parallel()
			_, err := withValuesLacking(t, section).Template(t.Context(), "--skip-schema-validation")
			if err == nil {
				t.Fatal("rendered")
			}
			if m := err.Error(); !strings.Contains(m, "  "+section+": must be a section") || !strings.Contains(m, "--reset-then-reuse-values") {
				t.Error(m)
			}
		})
	}
}

func chartValues(t *testing.T) map[string]any {
	t.Helper()
	raw, err := os.ReadFile("../../charts/lanyard/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(raw, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// withValuesLacking is helm with a copy of the chart whose values lack these keys.
func withValuesLacking(t *testing.T, keys ...string) Helm {
	t.Helper()
	values := chartValues(t)
	for _, key := range keys {
		path := strings.Split(key, ".")
		at := values
		for _, k := range path[:len(path)-1] {
			at, _ = at[k].(map[string]any)
		}
		if _, found := at[path[len(path)-1]]; !found {
			t.Fatalf("the values have no key %s", key)
		}
		delete(at, path[len(path)-1])
	}
	raw, err := yaml.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	h := findHelm(t)
	copied := filepath.Join(t.TempDir(), "lanyard")
	if err := os.CopyFS(copied, os.DirFS(h.chart)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(copied, "values.yaml"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return Helm{path: h.path, chart: copied}
}
