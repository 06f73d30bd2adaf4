//go:build unix

package chart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/lanyard-k8s/lanyard/exchange/settings"
	"github.com/lanyard-k8s/lanyard/policy"
)

// exchangeProfiles are the profiles in which the exchange's program is installed.
func exchangeProfiles(t *testing.T) []string {
	t.Helper()
	var names []string
	for name := range profiles(t) {
		if fileOf(t, name, "lanyard-exchange", "exchange.yaml") != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"aks", "audit", "default", "deployment", "exchange", "exchange-postgres", "forward", "job-kinds", "no-cert-manager", "openshift", "socket"}, names); diff != "" {
		t.Fatalf("profiles with the exchange (-want +got):\n%s", diff)
	}
	return names
}

// loaded has the program's own loader read both rendered files.
func loaded(t *testing.T, profile string) settings.Settings {
	t.Helper()
	dir := t.TempDir()
	for _, file := range []string{"exchange.yaml", "policies.json"} {
		text := strings.ReplaceAll(string(fileOf(t, profile, "lanyard-exchange", file)), "/etc/lanyard/config", dir)
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := settings.Load(filepath.Join(dir, "exchange.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestTheExchangeTakesItsConfiguration gives the rendered file to the program's own loader.
func TestTheExchangeTakesItsConfiguration(t *testing.T) {
	t.Parallel()
	for _, profile := range exchangeProfiles(t) {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			s := loaded(t, profile)
			if s.Keys.Namespace != Namespace || s.Keys.Secret != "lanyard-exchange-keys" {
				t.Errorf("the keys are in %s/%s", s.Keys.Namespace, s.Keys.Secret)
			}
			if (profile == "exchange" || profile == "default") && (s.BaseURL != "https://lanyard-exchange."+Namespace+".svc:8443" || s.Rules.Issuer != s.BaseURL || s.Rules.ClientID != "nemo-platform") {
				t.Errorf("base URL %s, issuer %s, client id %s", s.BaseURL, s.Rules.Issuer, s.Rules.ClientID)
			}
			if r := s.Reconcile; !r.Enabled() || (r.Lease != "") != (s.Store.Driver == settings.Postgres) || (r.CAConfigMap == "") != (profile == "exchange-postgres" || profile == "job-kinds") {
				t.Errorf("the reconciler's lease is %q, its ConfigMap %q", r.Lease, r.CAConfigMap)
			}
			if diff := cmp.Diff([]string{"system:serviceaccount:ci:runner"}, s.Rules.SystemSubjects); profile == "exchange-postgres" && diff != "" {
				t.Errorf("accounts that may submit (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheExchangeKeepsTheCAWhereTheNodesForward: the DaemonSet's pods mount a ConfigMap of the release's namespace, where nothing is
// managed. Somebody had to make it by hand, for which `helm install --wait` waited in vain.
func TestTheExchangeKeepsTheCAWhereTheNodesForward(t *testing.T) {
	t.Parallel()
	for profile, want := range map[string][]string{"forward": {Namespace}, "default": nil, "deployment": nil, "socket": nil, "exchange": nil} {
		s := loaded(t, profile)
		if diff := cmp.Diff(want, s.Reconcile.CANamespaces); diff != "" {
			t.Errorf("%s (-want +got):\n%s", profile, diff)
		}
		if may := slices.Contains(permissions(t, profile), "lanyard-exchange -> lanyard-exchange-ca in "+Namespace); may != (want != nil) {
			t.Errorf("%s: the exchange may write it: %v", profile, may)
		}
		if want == nil {
			continue
		}
		_, spec, _ := podOf(t, find(render(t, profile), "DaemonSet", "lanyard-connector"))
		mounted := slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.ConfigMap != nil && v.ConfigMap.Name == s.Reconcile.CAConfigMap })
		if !mounted {
			t.Errorf("%s: no connector mounts ConfigMap %s", profile, s.Reconcile.CAConfigMap)
		}
	}
}

// TestTheExchangeExpectsThePoliciesOfTheChart renders the policies from what the exchange is told of them.
func TestTheExchangeExpectsThePoliciesOfTheChart(t *testing.T) {
	t.Parallel()
	for _, profile := range exchangeProfiles(t) {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			s := loaded(t, profile).Reconcile.Policies
			var want, got []runtime.Object
			for _, p := range policy.All(s) {
				want = append(want, p.Policy, p.Binding)
			}
			for _, o := range render(t, profile) {
				if strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy") {
					got = append(got, decode(t, o))
				}
			}
			byKindAndName(want)
			byKindAndName(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("policies (-exchange +chart):\n%s", diff)
			}
		})
	}
}

// TestWithoutReplicasNothingOfTheProgramIsInstalled holds the rendering to what replicas: 0 says.
func TestWithoutReplicasNothingOfTheProgramIsInstalled(t *testing.T) {
	t.Parallel()
	objects := render(t, "rules-only", "--set", "monitoring.dashboard.enabled=true")
	for _, o := range objects {
		if strings.HasPrefix(o.GetName(), "lanyard-exchange") || o.GetName() == "lanyard-dashboard-exchange" {
			t.Errorf("%s %s is rendered", o.GetKind(), o.GetName())
		}
	}
	if find(objects, "ValidatingAdmissionPolicy", policy.JobPods) == nil {
		t.Error("the rules are not in force")
	}
}

// TestTheExchangesData holds what must outlive an upgrade and an uninstall to its promise.
func TestTheExchangesData(t *testing.T) {
	t.Parallel()
	for profile, kept := range map[string]bool{"exchange": true, "exchange-postgres": false} {
		objects := render(t, profile)
		secret := find(objects, "Secret", "lanyard-exchange-keys")
		if secret == nil || secret.Object["data"] != nil || secret.Object["stringData"] != nil {
			t.Errorf("%s: the keys' Secret holds something, and an upgrade would write over it: %v", profile, secret)
			continue
		}
		if got := secret.GetAnnotations()["helm.sh/resource-policy"] == "keep"; got != kept {
			t.Errorf("%s: the keys are kept: %v", profile, got)
		}
		claim := find(objects, "PersistentVolumeClaim", "lanyard-exchange-store")
		if (claim != nil) != kept || (kept && claim.GetAnnotations()["helm.sh/resource-policy"] != "keep") {
			t.Errorf("%s: the volume is %v", profile, claim)
		}
		d, ok := decode(t, find(objects, "Deployment", "lanyard-exchange")).(*appsv1.Deployment)
		if !ok || (d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType) != kept {
			t.Errorf("%s: a file and a rolling update, or a database and none: %v", profile, d.Spec.Strategy)
		}
	}
}

// TestJobsReachWhatTheyMust reads the network policy of a managed namespace.
func TestJobsReachWhatTheyMust(t *testing.T) {
	t.Parallel()
	for _, o := range render(t, "exchange") {
		if o.GetKind() != "NetworkPolicy" || o.GetName() != "lanyard-jobs" {
			continue
		}
		p, ok := decode(t, o).(*networkingv1.NetworkPolicy)
		if !ok || p.Namespace != "training" || len(p.Spec.Egress) != 4 || len(p.Spec.PodSelector.MatchLabels) != 0 {
			t.Errorf("the policy is %v", p)
		}
		return
	}
	t.Error("there is none")
}
