//go:build unix

package chart

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestThePlatformsLabelsAreEverywhere, on objects and on pods, and no selector depends on one: a Deployment's cannot change later.
func TestThePlatformsLabelsAreEverywhere(t *testing.T) {
	t.Parallel()
	pods := 0
	for _, o := range render(t, "openshift") {
		if strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy") {
			continue // generated from package policy
		}
		if o.GetLabels()["example.com/team"] != "platform" {
			t.Errorf("%s %s is without the label", o.GetKind(), o.GetName())
		}
		template, _, found := podOf(t, o)
		if !found {
			continue
		}
		if pods++; template.Labels["example.com/team"] != "platform" {
			t.Errorf("pods of %s %s are without the label", o.GetKind(), o.GetName())
		}
	}
	if pods == 0 {
		t.Error("no pod was rendered")
	}
}

// TestALabelStandsOnce: a key twice in a mapping is refused by what reads YAML strictly. What a program's pods are given wins.
func TestALabelStandsOnce(t *testing.T) {
	t.Parallel()
	args := []string{"--set-json", `commonLabels={"team":"platform"}`, "--set", "connector.deployment.enabled=true"}
	for _, program := range []string{"webhook", "exchange", "connector.socket", "connector.deployment"} {
		args = append(args, "--set-json", program+`.podLabels={"team":"ours"}`)
	}
	for _, kind := range []string{"podMonitor", "serviceMonitor", "prometheusRule", "dashboard"} {
		args = append(args, "--set-json", `monitoring.`+kind+`={"enabled":true,"labels":{"team":"ours"}}`)
	}
	out, err := findHelm(t).Template(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(out), "\n---\n") {
		var object map[string]any
		if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
			t.Errorf("%v:\n%s", err, document)
		}
	}
	objects, err := Objects(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		ours := strings.HasSuffix(o.GetKind(), "Monitor") || o.GetKind() == "PrometheusRule"
		if got := o.GetLabels()["team"]; ours && got != "ours" {
			t.Errorf("%s %s has the label %q", o.GetKind(), o.GetName(), got)
		}
		if template, _, found := podOf(t, o); found && (o.GetKind() == "Deployment" || o.GetKind() == "DaemonSet") {
			if got := template.Labels["team"]; got != "ours" || o.GetLabels()["team"] != "platform" {
				t.Errorf("%s %s has the label %q, its pods %q", o.GetKind(), o.GetName(), o.GetLabels()["team"], got)
			}
		}
	}
}

// TestNoUserIsNamedWhereTheClusterAssignsOne: such a cluster refuses a pod that names another.
func TestNoUserIsNamedWhereTheClusterAssignsOne(t *testing.T) {
	t.Parallel()
	for _, o := range render(t, "openshift") {
		_, spec, found := podOf(t, o)
		if !found {
			continue
		}
		if s := spec.SecurityContext; s.RunAsUser != nil || s.RunAsGroup != nil || s.FSGroup != nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot {
			t.Errorf("%s %s runs as %v:%v, volumes as %v", o.GetKind(), o.GetName(), s.RunAsUser, s.RunAsGroup, s.FSGroup)
		}
	}
	spread, _, _ := podOf(t, find(render(t, "openshift"), "Deployment", "lanyard-webhook"))
	if c := spread.Spec.TopologySpreadConstraints; len(c) != 2 || c[0].TopologyKey != corev1.LabelHostname || c[0].WhenUnsatisfiable != corev1.DoNotSchedule || c[1].WhenUnsatisfiable != corev1.ScheduleAnyway {
		t.Errorf("the webhook's replicas are spread by %v", c)
	}
}
