package doctor

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

func TestWorkloadFaults(t *testing.T) {
	t.Parallel()
	job := &metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Controller: new(true)}
	runFaults(t, map[string]fault{
		"a label with a value that means nothing": {
			func(s *Snapshot) { s.Namespaces[2].Labels[wire.LabelJobs] = "Managed" },
			CheckNamespaces, Warn, "Namespace/plain", "means nothing",
		},
		"a labelled namespace that is excluded": {
			func(s *Snapshot) { s.Namespaces[0].Labels[wire.LabelJobs] = wire.JobsManaged },
			CheckNamespaces, Warn, "Namespace/kube-system", "excluded",
		},
		"a publishers' namespace outside the chart's lists": {
			func(s *Snapshot) {
				s.addConnector()
				s.bindIn("monitors", "lanyard-connector-pods", account(release, "lanyard-connector"))
			},
			CheckNamespaces, Warn, "Namespace/gpu", "no RoleBinding lets the nodes' connectors",
		},
		"a publishers' namespace where the chart's lists are empty": {
			(*Snapshot).addConnector,
			CheckNamespaces, Warn, "Namespace/gpu", "no RoleBinding lets the nodes' connectors",
		},
		"a managed namespace in which nobody keeps the CA certificate": {
			func(s *Snapshot) { s.CA["ml"] = false },
			CheckCA, Warn, "Namespace/ml", "no RoleBinding lets the exchange keep ConfigMap lanyard-ca here, and it is not there",
		},
		"a managed namespace that the exchange was let into by no list": {
			func(s *Snapshot) {
				s.ClusterRoles = append(s.ClusterRoles, clusterRole("lanyard-exchange-ca"))
				s.bindIn("other", "lanyard-exchange-ca", account(release, "lanyard-exchange"))
			},
			CheckCA, Warn, "Namespace/ml", "no RoleBinding lets the exchange keep ConfigMap lanyard-ca here: it is outside the chart's lists",
		},
		"a binding of another program's is none of the exchange's": {
			func(s *Snapshot) {
				s.CA["ml"] = false
				s.bindIn("ml", "lanyard-test", account(release, "lanyard-test"))
				s.bindIn("ml", "lanyard-exchange-ca", account("elsewhere", "lanyard-exchange"))
			},
			CheckCA, Warn, "Namespace/ml", "no RoleBinding lets the exchange",
		},
		"an exchange that has not made the ConfigMap": {
			func(s *Snapshot) {
				s.CA["ml"] = false
				s.bindIn("ml", "lanyard-exchange-ca", account(release, "lanyard-exchange"))
			},
			CheckCA, Warn, "Namespace/ml", "the exchange has not made ConfigMap lanyard-ca yet",
		},
		"a listed publisher without its namespace": {
			func(s *Snapshot) {
				s.Settings.Rules.Publisher.Listed = append(s.Settings.Rules.Publisher.Listed, "gone/monitor")
				s.Mutating.Webhooks[3].NamespaceSelector = nil
				s.Validating.Webhooks[2].NamespaceSelector = nil
			},
			CheckNamespaces, Warn, "Namespace/gone", "does not exist",
		},
		"the publishers' audience in a pod on no list": {
			func(s *Snapshot) {
				s.Pods = append(s.Pods, pod("plain", "x", "mine", wire.DefaultPublisherAudience, nil))
			},
			CheckAudiences, Warn, "audience " + wire.DefaultPublisherAudience, "plain/x",
		},
		"the jobs' audience outside managed namespaces": {
			func(s *Snapshot) { s.Pods = append(s.Pods, pod("plain", "x", "mine", wire.DefaultJobAudience, nil)) },
			CheckAudiences, Warn, "audience " + wire.DefaultJobAudience, "plain/x",
		},
		"the jobs' audience in a managed namespace, in a pod that is no job's": {
			func(s *Snapshot) {
				owner := &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Controller: new(true)}
				s.Pods = append(s.Pods, pod("ml", "web", "mine", wire.DefaultJobAudience, owner))
			},
			CheckAudiences, Warn, "audience " + wire.DefaultJobAudience, "ml/web",
		},
		"a publisher without its token": {
			func(s *Snapshot) { s.Pods[1].Spec.Volumes = nil },
			CheckInjection, Warn, "role publisher", "gpu/monitor",
		},
		"a listed publisher without its token": {
			func(s *Snapshot) { s.Pods[2].Spec.Volumes = nil },
			CheckInjection, Warn, "role publisher", "monitors/listed",
		},
		"a job's pod without its token": {
			func(s *Snapshot) { s.Pods[0].Spec.Volumes = nil },
			CheckInjection, Warn, "role job", "ml/train-x",
		},
		"a bare pod without its token": {
			func(s *Snapshot) { s.Pods = append(s.Pods, pod("ml", "bare", "other", "", nil)) },
			CheckInjection, Warn, "role job", "ml/bare",
		},
		"a job without a stamp": {
			func(s *Snapshot) { s.Work[0].Stamped = false },
			CheckStamps, Warn, "Namespace/ml", "batch/jobs train",
		},
		"a job of another kind without a stamp": {
			func(s *Snapshot) {
				s.Work = append(s.Work, Work{Resource: "kubeflow.org/pytorchjobs", Namespace: "ml", Name: "tune"}, Work{Resource: "batch/cronjobs", Namespace: "ml", Name: "nightly"})
			},
			CheckStamps, Warn, "Namespace/ml", "2 in all: batch/cronjobs nightly, kubeflow.org/pytorchjobs tune",
		},
		"many pods are counted, ten are named": {
			func(s *Snapshot) {
				for _, c := range "abcdefghijkl" {
					s.Pods = append(s.Pods, pod("ml", "p"+string(c), "other", "", job))
				}
			},
			CheckInjection, Warn, "role job", "12 in all: ml/pa, ml/pb, ml/pc, ml/pd, ml/pe, ml/pf, ml/pg, ml/ph, ml/pi, ml/pj and 2 more",
		},
	})
}

// TestWorkloadsThatAreFine lists pods and jobs that look like a fault and are none.
func TestWorkloadsThatAreFine(t *testing.T) {
	t.Parallel()
	add := func(p corev1.Pod) func(*Snapshot) { return func(s *Snapshot) { s.Pods = append(s.Pods, p) } }
	finished := pod("plain", "done", "mine", wire.DefaultPublisherAudience, nil)
	finished.Status.Phase = corev1.PodSucceeded
	helper := pod("ml", "helper", "other", "", nil)
	helper.Labels[wire.LabelRole] = wire.RoleNone
	mirror := pod("ml", "mirror", "other", "", nil)
	mirror.Annotations[wire.AnnotationMirror] = "hash"
	for name, change := range map[string]func(*Snapshot){
		"a certificate that cert-manager knows nothing of": func(s *Snapshot) { s.Issued = nil },
		"a finished pod":                 add(finished),
		"a helper without identity":      add(helper),
		"a mirror pod":                   add(mirror),
		"a Deployment's pod":             add(pod("ml", "web", "other", "", &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Controller: new(true)})),
		"one of Lanyard's own pods":      add(pod(release, "connector", "mine", wire.DefaultPublisherAudience, nil)),
		"a role label without the right": func(s *Snapshot) { p := publisherPod("plain", "x"); p.Spec.Volumes = nil; s.Pods = append(s.Pods, p) },
		"an old job that is done":        func(s *Snapshot) { s.Work[0].Stamped, s.Work[0].Ended = false, true },
		"somebody else hands out the CA": func(s *Snapshot) { s.RoleBindings = nil },
		"no exchange, no CA": func(s *Snapshot) {
			s.CA["ml"] = false
			s.ClusterRoleBindings = slices.DeleteFunc(s.ClusterRoleBindings, func(b rbacv1.ClusterRoleBinding) bool { return b.Name == "lanyard-exchange" })
		},
		"an account entitled on its own": func(s *Snapshot) {
			s.Settings.Entitled = []string{"plain/default"}
			add(pod("plain", "x", "mine", wire.DefaultPublisherAudience, nil))(s)
		},
		"connectors that watch all pods": func(s *Snapshot) {
			s.addConnector()
			s.ClusterRoles = append(s.ClusterRoles, clusterRole("view", rbacv1.PolicyRule{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"pods"}}))
			s.bind("view", account(release, "lanyard-connector"))
		},
		"connectors that are not the release's": func(s *Snapshot) { s.bind("lanyard-connector", account("elsewhere", "lanyard-connector")) },
		"all namespaces are bound": func(s *Snapshot) {
			s.addConnector()
			s.ClusterRoles = append(s.ClusterRoles, clusterRole("lanyard-exchange-ca"))
			s.bindIn("gpu", "lanyard-connector-pods", account(release, "lanyard-connector"))
			s.bindIn("ml", "lanyard-exchange-ca", account(release, "lanyard-exchange"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := healthy(t)
			change(&s)
			if text := bad(Examine(s)); text != "" {
				t.Errorf("findings:\n%s", text)
			}
		})
	}
}
