package intake

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/doctor"
	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/policy"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// marked stands in what may never leave a cluster.
const marked = "MARKED-PRIVATE"

// objects are a small installation.
func objects() []runtime.Object {
	service := &admissionregistrationv1.ServiceReference{Namespace: "release", Name: "lanyard-webhook"}
	selector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: wire.LabelNamespaceName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system", "quiet"}},
	}}
	return []runtime.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "lanyard"},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: "job.mutate.lanyard.dev", NamespaceSelector: selector, ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: service},
			}},
		},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "release", Name: "a-other"}, Data: map[string]string{"other.yaml": "a: b"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "release", Name: "lanyard-webhook"}, Data: map[string]string{"webhook.yaml": "good"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "release", Name: DefaultSecret}, Data: map[string][]byte{
			"tls.crt": []byte("no certificate"), "tls.key": []byte(marked),
		}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ml", Labels: map[string]string{wire.LabelJobs: wire.JobsManaged}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "plain"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "ca"}, Data: map[string]string{"ca.crt": marked}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "p"}},
	}
}

// load takes "good" for a configuration and nothing else.
func load(raw []byte) (Configured, error) {
	if string(raw) != "good" {
		return Configured{}, errors.New("not the webhook's")
	}
	return Configured{
		Settings: doctor.Settings{
			Rules:   mutate.Rules{Job: &mutate.JobRules{CAConfigMap: "ca"}},
			Stamped: []string{"batch/jobs", "batch/cronjobs", "example.com/trainers", "not.installed/things"},
		},
		Policies: policy.Settings{Mode: policy.Enforce, PublisherAudience: "publishers"},
	}, nil
}

// cluster is a fake one of the given version.
func cluster(minor string) (Cluster, *kubefake.Clientset) {
	kube := kubefake.NewClientset(objects()...)
	kube.Discovery().(*fake.FakeDiscovery).FakedServerVersion = &version.Info{Major: "1", Minor: minor}
	kube.Resources = []*metav1.APIResourceList{
		{GroupVersion: "batch/v1", APIResources: []metav1.APIResource{{Name: "jobs"}, {Name: "cronjobs"}}},
		{GroupVersion: "example.com/v2", APIResources: []metav1.APIResource{{Name: "helpers"}}},
		{GroupVersion: "example.com/v1beta1", APIResources: []metav1.APIResource{{Name: "trainers"}}},
	}
	certificates := schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}
	dynamic := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		certificates: "CertificateList",
		{Group: "batch", Version: "v1", Resource: "jobs"}:                "JobList",
		{Group: "batch", Version: "v1", Resource: "cronjobs"}:            "CronJobList",
		{Group: "example.com", Version: "v1beta1", Resource: "trainers"}: "TrainerList",
	},
		work("batch/v1", "Job", "ml", "train", "", nil),
		work("batch/v1", "Job", "ml", "stamped", "alice", nil),
		work("batch/v1", "Job", "ml", "done", "", map[string]any{"completionTime": "2026-11-30T11:00:00Z"}),
		work("batch/v1", "Job", "plain", "other", "", nil),
		work("example.com/v1beta1", "Trainer", "ml", "tune", "", map[string]any{"conditions": []any{map[string]any{"type": "Succeeded", "status": "False"}}}),
		work("example.com/v1beta1", "Trainer", "ml", "tuned", "", map[string]any{"conditions": []any{map[string]any{"type": "Failed", "status": "True"}}}),
		&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": map[string]any{"namespace": "release", "name": "webhook"},
			"spec": map[string]any{"secretName": "webhook-tls"},
			"status": map[string]any{
				"notAfter":   "2027-01-01T00:00:00Z",
				"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Ready"}},
			},
		}})
	return Cluster{Kube: kube, Dynamic: dynamic}, kube
}

// work is an object that should bear a stamp.
func work(apiVersion, kind, namespace, name, creator string, status map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"namespace": namespace, "name": name}, "spec": map[string]any{"secret": marked},
	}}
	if creator != "" {
		o.SetAnnotations(map[string]string{wire.AnnotationCreatedBy: creator})
	}
	if status != nil {
		o.Object["status"] = status
	}
	return o
}

func TestTake(t *testing.T) {
	t.Parallel()
	c, _ := cluster("32+")
	s, err := Take(t.Context(), c, Options{Load: load}, now)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Unread) != 0 {
		t.Errorf("unread: %v", s.Unread)
	}
	for what, ok := range map[string]bool{
		"version":                   s.Major == 1 && s.Minor == 32,
		"release from the entries":  s.Release == "release",
		"excluded from the entries": slices.Equal(s.Settings.Excluded, []string{"kube-system", "quiet"}),
		"the Secret was found":      s.Serving.Found && len(s.Serving.Chain) == 0,
		"cert-manager's word":       len(s.Issued) == 1 && s.Issued[0].Secret == "webhook-tls" && s.Issued[0].Ready && s.Issued[0].Expires.Year() == 2027,
		"the CA's ConfigMap":        len(s.CA) == 1 && s.CA["ml"],
		"pods":                      len(s.Pods) == 1,
		"expected policies":         len(s.ExpectedPolicies) > 0 && len(s.ExpectedPolicies) == len(s.ExpectedBindings),
		"the connector's fence":     fenced(s, "system:serviceaccount:release:lanyard-connector"),
	} {
		if !ok {
			t.Errorf("%s: not as expected", what)
		}
	}
	want := []doctor.Work{
		{Resource: "batch/jobs", Namespace: "ml", Name: "done", Ended: true},
		{Resource: "batch/jobs", Namespace: "ml", Name: "stamped", Stamped: true},
		{Resource: "batch/jobs", Namespace: "ml", Name: "train"},
		{Resource: "example.com/trainers", Namespace: "ml", Name: "tune"},
		{Resource: "example.com/trainers", Namespace: "ml", Name: "tuned", Ended: true},
	}
	slices.SortFunc(s.Work, func(a, b doctor.Work) int { return strings.Compare(a.Resource+a.Name, b.Resource+b.Name) })
	if diff := cmp.Diff(want, s.Work); diff != "" {
		t.Errorf("work of managed namespaces (-want +got):\n%s", diff)
	}
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), marked) || strings.Contains(string(raw), "TUFSS0VE") {
		t.Error("the snapshot holds a Secret's private part")
	}
	if text, _ := json.Marshal(doctor.Examine(s)); strings.Contains(string(text), marked) {
		t.Error("a finding holds a Secret's private part")
	}
}

// fenced says whether the policy on node status is expected, for that connector and with foreign conditions that no
// configuration tells.
func fenced(s doctor.Snapshot, connector string) bool {
	return slices.ContainsFunc(s.ExpectedPolicies, func(p admissionregistrationv1.ValidatingAdmissionPolicy) bool {
		return p.Name == policy.NodeStatus && strings.Contains(p.Spec.MatchConditions[0].Expression, `"`+connector+`"`) &&
			slices.ContainsFunc(p.Spec.Variables, func(v admissionregistrationv1.Variable) bool {
				return v.Name == "foreign" && strings.HasSuffix(v.Expression, `["`+doctor.Unknown+`"]`)
			})
	})
}

// TestTakeWithoutRights forbids one resource at a time: the source is noted, and nothing else is lost.
func TestTakeWithoutRights(t *testing.T) {
	t.Parallel()
	for resource, want := range map[string]doctor.Source{
		"mutatingwebhookconfigurations":     doctor.SourceWebhooks,
		"validatingwebhookconfigurations":   doctor.SourceWebhooks,
		"configmaps":                        doctor.SourceSettings,
		"secrets":                           doctor.SourceSecrets,
		"endpointslices":                    doctor.SourceEndpoints,
		"validatingadmissionpolicies":       doctor.SourcePolicies,
		"validatingadmissionpolicybindings": doctor.SourcePolicies,
		"namespaces":                        doctor.SourceNamespaces,
		"clusterroles":                      doctor.SourceRBAC,
		"clusterrolebindings":               doctor.SourceRBAC,
		"roles":                             doctor.SourceRBAC,
		"rolebindings":                      doctor.SourceRBAC,
		"pods":                              doctor.SourcePods,
	} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			c, kube := cluster("37")
			kube.PrependReactor("*", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no"))
			})
			s, err := Take(t.Context(), c, Options{Release: "release", Load: load}, now)
			if err != nil {
				t.Fatal(err)
			}
			if why := s.Unread[want]; !strings.HasPrefix(why, "not allowed: ") || len(s.Unread) != 1 {
				t.Errorf("unread = %v, want %q alone, as not allowed", s.Unread, want)
			}
		})
	}
}

// TestTakeWithoutRightsToWork forbids one kind of job, and the CA's ConfigMaps alone.
func TestTakeWithoutRightsToWork(t *testing.T) {
	t.Parallel()
	forbid := func(resource string) clienttesting.ReactionFunc {
		return func(a clienttesting.Action) (bool, runtime.Object, error) {
			return a.GetNamespace() == "ml", nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no"))
		}
	}
	for resource, want := range map[string]doctor.Source{"jobs": doctor.SourceJobs, "trainers": doctor.SourceJobs, "configmaps": doctor.SourceCA} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			c, kube := cluster("37")
			kube.PrependReactor("*", resource, forbid(resource))
			c.Dynamic.(*dynamicfake.FakeDynamicClient).PrependReactor("list", resource, forbid(resource))
			s, err := Take(t.Context(), c, Options{Load: load}, now)
			if err != nil {
				t.Fatal(err)
			}
			if why := s.Unread[want]; !strings.HasPrefix(why, "not allowed: ") || len(s.Unread) != 1 {
				t.Errorf("unread = %v, want %q alone, as not allowed", s.Unread, want)
			}
		})
	}
}

func TestTakeStops(t *testing.T) {
	t.Parallel()
	t.Run("a given configuration that is bad", func(t *testing.T) {
		t.Parallel()
		c, _ := cluster("37")
		if _, err := Take(t.Context(), c, Options{Config: []byte("bad"), Load: load}, now); err == nil || !strings.Contains(err.Error(), "not the webhook's") {
			t.Errorf("error = %v, want the configuration's", err)
		}
	})
	t.Run("an API server that does not answer", func(t *testing.T) {
		t.Parallel()
		c, kube := cluster("37")
		kube.PrependReactor("get", "version", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("connection refused")
		})
		if _, err := Take(t.Context(), c, Options{Load: load}, now); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("error = %v, want the connection's", err)
		}
	})
}
