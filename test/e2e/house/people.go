//go:build unix

package house

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// settle makes the namespaces, the publishers' service accounts and the people's rights, as an admin does before installing.
func (h *House) settle(ctx context.Context) error {
	for _, namespace := range []string{Managed, Publishing, Listed} {
		if err := h.MakeNamespace(ctx, namespace, nil); err != nil {
			return err
		}
	}
	for _, namespace := range []string{Publishing, Listed} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: Monitor}}
		if _, err := h.Admin.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{}); ignoreExisting(err) != nil {
			return fmt.Errorf("making service account %s/%s: %w", namespace, Monitor, err)
		}
	}
	return nil
}

// MakeNamespace makes a namespace with labels, in which Alice and Bob may edit. It is no fault if it is there already; its labels
// are added then. Labels that make a namespace managed wait for the chart (Label): before that they are only words.
func (h *House) MakeNamespace(ctx context.Context, name string, labels map[string]string) error {
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	_, err := h.Admin.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		for key, value := range labels {
			if err := h.label(ctx, name, key, value); err != nil {
				return err
			}
		}
	} else if err != nil {
		return fmt.Errorf("making namespace %s: %w", name, err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "editors"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects: []rbacv1.Subject{
			{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: Alice}, {APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: Bob},
		},
	}
	if _, err := h.Admin.RbacV1().RoleBindings(name).Create(ctx, binding, metav1.CreateOptions{}); ignoreExisting(err) != nil {
		return fmt.Errorf("giving people rights in namespace %s: %w", name, err)
	}
	return h.await(ctx, "the default service account of namespace "+name, func(ctx context.Context) error {
		_, err := h.Admin.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// Label labels the namespaces as the notes of the chart tell the admin to.
func (h *House) Label(ctx context.Context) error {
	return errors.Join(
		h.label(ctx, Managed, wire.LabelJobs, wire.JobsManaged),
		h.label(ctx, Publishing, wire.LabelPublishers, wire.PublishersEnabled),
	)
}

func (h *House) label(ctx context.Context, namespace, key, value string) error {
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value)
	_, err := h.Admin.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("labelling namespace %s: %w", namespace, err)
	}
	return nil
}

// Client is a client that acts as a user, by a client certificate.
func (h *House) Client(user string, groups ...string) (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(h.Cluster.ConfigFor(user, groups...))
}

// MustClient is Client for a test.
func (h *House) MustClient(t *testing.T, user string) kubernetes.Interface {
	t.Helper()
	c, err := h.Client(user)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func ignoreExisting(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
