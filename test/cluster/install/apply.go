//go:build unix

package install

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-k8s/lanyard/test/cluster"
)

// fieldOwner is whom the API server notes as the author of what is applied.
const fieldOwner = client.FieldOwner("lanyard-test")

// newClient is an administrator's.
func newClient(cp *cluster.ControlPlane) (client.Client, error) {
	config, err := cp.Config()
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme.Scheme})
}

// ApplyPolicies applies the policies and their bindings and waits until the API server enforces every one of them.
func (in *Installation) ApplyPolicies(ctx context.Context) error {
	if err := in.apply(ctx, in.objects.Policies()); err != nil {
		return err
	}
	return in.barrier(ctx)
}

// RemovePolicies removes the policies and their bindings and waits until none is enforced any more.
func (in *Installation) RemovePolicies(ctx context.Context) error {
	if err := in.remove(ctx, in.objects.Policies()); err != nil {
		return err
	}
	return in.barrier(ctx)
}

// ApplyWebhooks applies the webhook configurations and waits until the API server calls them.
func (in *Installation) ApplyWebhooks(ctx context.Context) error {
	if err := in.apply(ctx, in.objects.Webhooks()); err != nil {
		return err
	}
	return in.barrier(ctx)
}

// RemoveWebhooks removes the webhook configurations and waits until the API server calls none of them any more.
func (in *Installation) RemoveWebhooks(ctx context.Context) error {
	if err := in.remove(ctx, in.objects.Webhooks()); err != nil {
		return err
	}
	return in.barrier(ctx)
}

// applyOthers applies everything that is no admission configuration. What the chart puts into namespaces that are not there,
// such as a connector's right to watch a publisher's pods, is left out: tests make their namespaces when they need them.
func (in *Installation) applyOthers(ctx context.Context) error {
	for _, u := range in.objects.others() {
		err := in.apply(ctx, Objects{u})
		if apierrors.IsNotFound(err) && u.GetNamespace() != "" && u.GetNamespace() != in.options.Namespace {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// makeNamespace makes the release's namespace, as helm's --create-namespace does.
func (in *Installation) makeNamespace(ctx context.Context) error {
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: in.options.Namespace}}
	if err := in.client.Create(ctx, space); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making namespace %s: %w", in.options.Namespace, err)
	}
	return in.cp.AwaitServiceAccount(ctx, in.options.Namespace)
}

// apply applies objects on the server's side, which refuses fields that it does not know.
func (in *Installation) apply(ctx context.Context, objects Objects) error {
	strict := client.WithFieldValidation(in.client, client.FieldValidation(metav1.FieldValidationStrict))
	for _, u := range objects {
		object := client.ApplyConfigurationFromUnstructured(u.DeepCopy())
		if err := strict.Apply(ctx, object, fieldOwner, client.ForceOwnership); err != nil {
			return fmt.Errorf("applying %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return nil
}

// remove removes objects, those that are gone already being no fault.
func (in *Installation) remove(ctx context.Context, objects Objects) error {
	for _, u := range objects {
		if err := in.client.Delete(ctx, u.DeepCopy()); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return nil
}
