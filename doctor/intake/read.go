package intake

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lanyard-k8s/lanyard/doctor"
)

// page is how many objects one call may bring.
const page = 500

// pages calls list until there is nothing more. The list function takes the page's options, keeps the items and returns the
// list's metadata.
func pages(list func(metav1.ListOptions) (metav1.ListInterface, error)) error {
	opts := metav1.ListOptions{Limit: page}
	for {
		meta, err := list(opts)
		if err != nil {
			return err
		}
		opts.Continue = meta.GetContinue()
		if opts.Continue == "" {
			return nil
		}
	}
}

// webhooks reads both configurations, and learns from them where the release is.
func (t *taker) webhooks(ctx context.Context) {
	api := t.Kube.AdmissionregistrationV1()
	mutating, err := api.MutatingWebhookConfigurations().Get(ctx, doctor.Name, metav1.GetOptions{})
	if err == nil {
		t.snapshot.Mutating = mutating
		for _, w := range mutating.Webhooks {
			if t.snapshot.Release == "" && w.ClientConfig.Service != nil {
				t.snapshot.Release = w.ClientConfig.Service.Namespace
			}
		}
	} else if !apierrors.IsNotFound(err) {
		t.missed(doctor.SourceWebhooks, err)
	}
	validating, err := api.ValidatingWebhookConfigurations().Get(ctx, doctor.Name, metav1.GetOptions{})
	if err == nil {
		t.snapshot.Validating = validating
		for _, w := range validating.Webhooks {
			if t.snapshot.Release == "" && w.ClientConfig.Service != nil {
				t.snapshot.Release = w.ClientConfig.Service.Namespace
			}
		}
	} else if !apierrors.IsNotFound(err) {
		t.missed(doctor.SourceWebhooks, err)
	}
}

// certificates reads the serving certificate's public part, and cert-manager's word on the release's Certificates.
func (t *taker) certificates(ctx context.Context) {
	t.snapshot.Serving.Secret = t.Secret
	if t.snapshot.Release == "" {
		t.snapshot.Unread[doctor.SourceSecrets] = "the release's namespace is not known"
		t.snapshot.Unread[doctor.SourceIssuance] = "the release's namespace is not known"
		return
	}
	secret, err := t.Kube.CoreV1().Secrets(t.snapshot.Release).Get(ctx, t.Secret, metav1.GetOptions{})
	switch {
	case err == nil:
		t.snapshot.Serving.Found = true
		t.snapshot.Serving.Chain = doctor.ParseCertificates(secret.Data["tls.crt"])
	case !apierrors.IsNotFound(err):
		t.missed(doctor.SourceSecrets, err)
	}
	resource := schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}
	list, err := t.Dynamic.Resource(resource).Namespace(t.snapshot.Release).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) { // cert-manager is not installed; the Secret is somebody else's work
		return
	}
	if err != nil {
		t.missed(doctor.SourceIssuance, err)
		return
	}
	for _, c := range list.Items {
		t.snapshot.Issued = append(t.snapshot.Issued, issued(c))
	}
}

// issued reads what cert-manager says of one Certificate. Fields that are not as expected count as absent, and a
// Certificate without its condition is not ready.
func issued(object unstructured.Unstructured) doctor.Certificate {
	c := doctor.Certificate{Name: object.GetName()}
	c.Secret, _, _ = unstructured.NestedString(object.Object, "spec", "secretName")
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		condition, ok := item.(map[string]any)
		if !ok || condition["type"] != "Ready" {
			continue
		}
		c.Ready = condition["status"] == "True"
		c.Reason, _ = condition["reason"].(string)
	}
	if text, found, _ := unstructured.NestedString(object.Object, "status", "notAfter"); found {
		c.Expires, _ = time.Parse(time.RFC3339, text)
	}
	return c
}

func (t *taker) endpoints(ctx context.Context) {
	if t.snapshot.Release == "" {
		t.snapshot.Unread[doctor.SourceEndpoints] = "the release's namespace is not known"
		return
	}
	t.missed(doctor.SourceEndpoints, pages(func(o metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := t.Kube.DiscoveryV1().EndpointSlices(t.snapshot.Release).List(ctx, o)
		if err != nil {
			return nil, err
		}
		t.snapshot.Endpoints = append(t.snapshot.Endpoints, list.Items...)
		return list, nil
	}))
}

func (t *taker) policies(ctx context.Context) {
	api := t.Kube.AdmissionregistrationV1()
	policies, err := api.ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.missed(doctor.SourcePolicies, err)
		return
	}
	bindings, err := api.ValidatingAdmissionPolicyBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.missed(doctor.SourcePolicies, err)
		return
	}
	t.snapshot.Policies, t.snapshot.Bindings = policies.Items, bindings.Items
}

func (t *taker) namespaces(ctx context.Context) {
	t.missed(doctor.SourceNamespaces, pages(func(o metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := t.Kube.CoreV1().Namespaces().List(ctx, o)
		if err != nil {
			return nil, err
		}
		t.snapshot.Namespaces = append(t.snapshot.Namespaces, list.Items...)
		return list, nil
	}))
}

// access reads roles and bindings, all four kinds or none: half of them would tell half of the truth.
func (t *taker) access(ctx context.Context) {
	api := t.Kube.RbacV1()
	clusterRoles, err := api.ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.missed(doctor.SourceRBAC, err)
		return
	}
	clusterRoleBindings, err := api.ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.missed(doctor.SourceRBAC, err)
		return
	}
	roles, err := api.Roles("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.missed(doctor.SourceRBAC, err)
		return
	}
	roleBindings, err := api.RoleBindings("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.missed(doctor.SourceRBAC, err)
		return
	}
	t.snapshot.ClusterRoles, t.snapshot.ClusterRoleBindings = clusterRoles.Items, clusterRoleBindings.Items
	t.snapshot.Roles, t.snapshot.RoleBindings = roles.Items, roleBindings.Items
}

// workloads reads all pods.
func (t *taker) workloads(ctx context.Context) {
	t.missed(doctor.SourcePods, pages(func(o metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := t.Kube.CoreV1().Pods("").List(ctx, o)
		if err != nil {
			return nil, err
		}
		t.snapshot.Pods = append(t.snapshot.Pods, list.Items...)
		return list, nil
	}))
}
