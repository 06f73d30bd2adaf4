//go:build unix

package chart

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/policy"
)

const jobController = "system:serviceaccount:kube-system:job-controller"

func jobRow() policy.Kind {
	return policy.Kind{
		Group: "batch", Kind: "Job", Resource: "jobs", PodCreators: []string{jobController},
		AdoptionLabels: []string{"batch.kubernetes.io/controller-uid", "controller-uid", "batch.kubernetes.io/job-name", "job-name"},
	}
}

// defaultSettings are what the chart must make of its default values.
func defaultSettings() policy.Settings {
	return policy.Settings{
		Mode:              policy.Enforce,
		Jobs:              true,
		PublisherAudience: wire.DefaultPublisherAudience,
		JobAudience:       wire.DefaultJobAudience,
		JobTokenFile:      wire.DefaultJobMountPath + "/" + wire.TokenFile,
		ReleaseAccounts: []string{
			"system:serviceaccount:lanyard:lanyard-connector", "system:serviceaccount:lanyard:lanyard-connector-deployment",
			"system:serviceaccount:lanyard:lanyard-exchange",
		},
		Kinds:              []policy.Kind{jobRow()},
		Delegating:         []policy.Controller{{Identity: "system:serviceaccount:kube-system:cronjob-controller", Parents: []string{"batch/CronJob"}}},
		ExcludedNamespaces: []string{"kube-system", "kube-public", "kube-node-lease", "lanyard"},
		SocketConnector:    "system:serviceaccount:" + Namespace + ":" + wire.AccountSocketConnector,
	}
}

func TestTheChartRendersThePoliciesOfTheCode(t *testing.T) {
	t.Parallel()
	for profile, change := range map[string]func(*policy.Settings){
		"default":         func(*policy.Settings) {},
		"no-cert-manager": func(*policy.Settings) {},
		"audit": func(s *policy.Settings) {
			s.Mode = policy.Audit
			s.Publishers = []string{"gpu/monitor", "lanyard/self-made", "gpu/another"}
			s.PublisherAccounts = []string{"system:serviceaccount:lanyard:csp-health-monitor", "system:serviceaccount:lanyard:health-events-analyzer"}
			s.Submitters = []string{"system:serviceaccount:ci:runner"}
		},
		"deployment": func(s *policy.Settings) {
			s.PublisherAccounts = []string{"system:serviceaccount:lanyard:csp-health-monitor", "system:serviceaccount:tools:csp.monitor"}
			s.ForeignConditions = []string{"KernelDeadlock", "ReadonlyFilesystem"}
		},
		"disabled": func(s *policy.Settings) { s.Jobs, s.PublisherAudience, s.JobAudience = false, "", "" },
		"job-kinds": func(s *policy.Settings) {
			s.JobAudience, s.JobTokenFile = "jobs.example.com", "/var/run/secrets/example/token"
			s.PublisherAccounts = []string{"system:serviceaccount:lanyard:kubernetes-object-monitor", "system:serviceaccount:tools:csp.monitor"}
			s.Kinds = append(s.Kinds,
				policy.Kind{Group: "batch.volcano.sh", Kind: "Job", Resource: "jobs", PodCreators: []string{"system:serviceaccount:volcano-system:volcano-controllers"}, AdoptionLabels: []string{"volcano.sh/job-name"}},
				policy.Kind{Group: "ray.io", Kind: "RayCluster", PodCreators: []string{"system:serviceaccount:ray:operator"}})
			s.Delegating = append(s.Delegating, policy.Controller{
				Identity: "system:serviceaccount:ray:operator", Parents: []string{"ray.io/RayJob", "batch.volcano.sh/Job", "policy.example.com/Policy"},
				Resources: map[string]string{"policy.example.com/Policy": "policies", "batch.volcano.sh/Job": "ignored"},
			})
			s.TemplateEditors = []string{"system:serviceaccount:kueue-system:kueue-controller-manager"}
			s.TemplatePaths = []string{"ray.io/RayCluster:spec.workerGroupSpecs", "ray.io/RayCluster:spec.headGroupSpec.template"}
			s.TokenRequesters = []string{"system:serviceaccount:tools:minter", "system:kube-controller-manager"}
			s.ExcludedNamespaces = append(s.ExcludedNamespaces, "calico-system")
		},
	} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			s := defaultSettings()
			change(&s)
			var want []runtime.Object
			for _, p := range policy.All(s) {
				want = append(want, p.Policy, p.Binding)
			}
			var got []runtime.Object
			for _, o := range render(t, profile) {
				if kind := o.GetKind(); kind == "ValidatingAdmissionPolicy" || kind == "ValidatingAdmissionPolicyBinding" {
					got = append(got, decode(t, o))
				}
			}
			byKindAndName(want)
			byKindAndName(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("policies (-code +chart):\n%s", diff)
			}
		})
	}
}

func TestPoliciesCanBeLeftOut(t *testing.T) {
	t.Parallel()
	for _, o := range render(t, "no-policies") {
		if o.GetKind() == "ValidatingAdmissionPolicy" || o.GetKind() == "ValidatingAdmissionPolicyBinding" {
			t.Errorf("%s %s is rendered", o.GetKind(), o.GetName())
		}
	}
}

func byKindAndName(objects []runtime.Object) {
	name := func(o runtime.Object) string {
		u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return ""
		}
		meta, _ := u["metadata"].(map[string]any)
		n, _ := meta["name"].(string)
		return o.GetObjectKind().GroupVersionKind().Kind + "/" + n
	}
	slices.SortFunc(objects, func(a, b runtime.Object) int {
		switch x, y := name(a), name(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
}
