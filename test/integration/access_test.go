//go:build unix

package integration

import (
	"context"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/install"
)

// controlPlane is the shared control plane.
func controlPlane(t *testing.T) *cluster.ControlPlane {
	t.Helper()
	return env(t).cp
}

// installation is Lanyard on the shared control plane. Whoever changes it must not run in parallel.
func installation(t *testing.T) *install.Installation {
	t.Helper()
	return env(t).in
}

// webhook is the webhook's process. Whoever stops it must not run in parallel.
func webhook(t *testing.T) *install.Webhook {
	t.Helper()
	return installation(t).Webhook()
}

// admin is a client that may do anything.
func admin(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	config, err := controlPlane(t).Config()
	return clientset(t, config, err)
}

// as is a client with a certificate of the user's own. RBAC lets it do nothing before grant does.
func as(t *testing.T, user string, groups ...string) *kubernetes.Clientset {
	t.Helper()
	config, err := controlPlane(t).ConfigFor(user, groups...)
	return clientset(t, config, err)
}

// editor makes a user of this name an editor of the namespace, as teams are of theirs, and returns the user's client.
func editor(t *testing.T, user, namespace string) *kubernetes.Clientset {
	t.Helper()
	grant(t, namespace, "edit", user)
	return as(t, user)
}

// grant gives a user a ClusterRole in a namespace and waits until the API server knows.
func grant(t *testing.T, namespace, role, user string) {
	t.Helper()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "grant-", Namespace: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	if _, err := admin(t).RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Resource: "pods"},
	}}
	client := as(t, user)
	eventually(t, "the user may create pods", func(ctx context.Context) (bool, error) {
		answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	})
}

// newNamespace makes a namespace with these labels that pods can be made in, for this test alone.
func newNamespace(t *testing.T, labels map[string]string) string {
	t.Helper()
	return makeNamespace(t, metav1.ObjectMeta{GenerateName: "test-", Labels: labels})
}

// namedNamespace is newNamespace for tests that need a name on the list of publishers, without labels; only one test may use
// a name.
func namedNamespace(t *testing.T, name string) string {
	t.Helper()
	return makeNamespace(t, metav1.ObjectMeta{Name: name})
}

func makeNamespace(t *testing.T, meta metav1.ObjectMeta) string {
	t.Helper()
	spaces := admin(t).CoreV1().Namespaces()
	space, err := spaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: meta}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // makeListed has made it
		space, err = spaces.Get(t.Context(), meta.Name, metav1.GetOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Nobody waits for its end: the name is never used again.
		if err := spaces.Delete(context.Background(), space.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("deleting namespace %s: %v", space.Name, err)
		}
	})
	if err := controlPlane(t).AwaitServiceAccount(t.Context(), space.Name); err != nil {
		t.Fatal(err)
	}
	return space.Name
}

// eventually asks until the answer is yes, and fails the test after two minutes of no.
func eventually(t *testing.T, what string, done func(context.Context) (bool, error)) {
	t.Helper()
	eventuallyWithin(t, 2*time.Minute, what, done)
}

// eventuallyWithin is eventually for what takes longer.
func eventuallyWithin(t *testing.T, limit time.Duration, what string, done func(context.Context) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := done(ctx)
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waiting in vain until %s: %v", what, err)
		}
	}
}

func clientset(t *testing.T, config *rest.Config, err error) *kubernetes.Clientset {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
