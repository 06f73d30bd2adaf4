//go:build unix

package chart

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// TestWhatAlertsAndDashboardsAskForIsScraped holds either switch against every query of the rules and dashboards that are rendered with
// it: each program whose series a query names is scraped, and once. With serviceMonitor alone the webhook was scraped, so that
// LanyardExchangeDown fired for ever, and the connector's alerts never.
func TestWhatAlertsAndDashboardsAskForIsScraped(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"forward", "default", "deployment", "rules-only", "exchange-postgres"} {
		for _, monitor := range []string{"PodMonitor", "ServiceMonitor"} {
			t.Run(profile+" by "+monitor, func(t *testing.T) {
				t.Parallel()
				pod, service := strconv.FormatBool(monitor == "PodMonitor"), strconv.FormatBool(monitor == "ServiceMonitor")
				objects := render(t, profile, "--set", "monitoring.prometheusRule.enabled=true,monitoring.dashboard.enabled=true,monitoring.podMonitor.enabled="+pod+",monitoring.serviceMonitor.enabled="+service)
				scraped, queries := scrapedBy(t, objects, monitor), renderedQueries(t, objects)
				if len(queries) == 0 {
					t.Fatal("no alert and no dashboard is rendered")
				}
				for name, times := range scraped {
					if times != 1 {
						t.Errorf("%s is scraped %d times", name, times)
					}
				}
				for _, q := range queries {
					for _, program := range askedFor(q) {
						if !slices.ContainsFunc(program, func(name string) bool { return scraped[name] > 0 }) {
							t.Errorf("%s: none of %q is scraped", q, program)
						}
					}
				}
			})
		}
	}
}

// askedFor are, for each series of a query, the workloads of which one at least must be scraped; none for the API server's series.
func askedFor(query string) (programs [][]string) {
	for _, m := range ownMetric.FindAllStringSubmatch(query, -1) {
		switch {
		case strings.HasPrefix(m[1], "lanyard_admission_"):
			programs = append(programs, []string{"lanyard-webhook"})
		case strings.HasPrefix(m[1], "lanyard_exchange_"):
			programs = append(programs, []string{"lanyard-exchange"})
		default:
			programs = append(programs, []string{"lanyard-connector", "lanyard-connector-deployment"})
		}
	}
	for _, m := range regexp.MustCompile(`\bup\{pod=~"([^"]+)-\.\*"\}`).FindAllStringSubmatch(query, -1) {
		programs = append(programs, []string{m[1]})
	}
	return programs
}

// renderedQueries are the queries of every rule and of every panel in a rendering.
func renderedQueries(t *testing.T, objects []*unstructured.Unstructured) (queries []string) {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == "PrometheusRule" {
			var rule struct{ Spec struct{ Groups []group } }
			raw, err := yaml.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal(raw, &rule); err != nil {
				t.Fatal(err)
			}
			for _, g := range rule.Spec.Groups {
				for _, a := range g.Rules {
					queries = append(queries, a.Expr)
				}
			}
		}
		if o.GetKind() == "ConfigMap" && strings.HasPrefix(o.GetName(), "lanyard-dashboard-") {
			data, _, _ := unstructured.NestedStringMap(o.Object, "data")
			for _, text := range data {
				for _, m := range regexp.MustCompile(`"expr": "((?:[^"\\]|\\.)*)"`).FindAllStringSubmatch(text, -1) {
					queries = append(queries, strings.ReplaceAll(m[1], `\"`, `"`))
				}
			}
		}
	}
	return queries
}

// scrapedBy says how many monitors of a kind find each workload's pods and a port that they have.
func scrapedBy(t *testing.T, objects []*unstructured.Unstructured, monitor string) map[string]int {
	t.Helper()
	scraped := map[string]int{}
	for _, o := range objects {
		template, spec, found := podOf(t, o)
		if kind := o.GetKind(); !found || (kind != "Deployment" && kind != "DaemonSet") {
			continue
		}
		scraped[o.GetName()] = 0
		for _, m := range objects {
			if m.GetKind() != monitor {
				continue
			}
			selector, _, _ := unstructured.NestedStringMap(m.Object, "spec", "selector", "matchLabels")
			switch monitor {
			case "PodMonitor":
				if matches(selector, template.Labels) && hasPort(spec, portOf(t, m, "podMetricsEndpoints")) {
					scraped[o.GetName()]++
				}
			case "ServiceMonitor":
				scraped[o.GetName()] += throughServices(t, objects, selector, portOf(t, m, "endpoints"), template.Labels, spec)
			}
		}
	}
	return scraped
}

// throughServices counts the Services that a ServiceMonitor selects and that lead to a pod's port.
func throughServices(t *testing.T, objects []*unstructured.Unstructured, selector map[string]string, port string, pod map[string]string, spec *corev1.PodSpec) (times int) {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() != "Service" {
			continue
		}
		service, ok := decode(t, o).(*corev1.Service)
		if !ok || !matches(selector, service.Labels) || !matches(service.Spec.Selector, pod) {
			continue
		}
		for _, p := range service.Spec.Ports {
			if p.Name == port && hasPort(spec, p.TargetPort.StrVal) {
				times++
			}
		}
	}
	return times
}

func matches(selector, of map[string]string) bool {
	return len(selector) > 0 && labels.SelectorFromSet(selector).Matches(labels.Set(of))
}

func hasPort(spec *corev1.PodSpec, name string) bool {
	return slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == name })
	})
}

// portOf is the port of a monitor's only endpoint.
func portOf(t *testing.T, monitor *unstructured.Unstructured, field string) string {
	t.Helper()
	endpoints, _, _ := unstructured.NestedSlice(monitor.Object, "spec", field)
	if len(endpoints) != 1 {
		t.Fatalf("%s has %d endpoints", monitor.GetName(), len(endpoints))
	}
	endpoint, _ := endpoints[0].(map[string]any)
	port, _ := endpoint["port"].(string)
	return port
}
