//go:build unix

package install_test

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/install"
)

// TestInstallation goes through one installation from beginning to end; each step finds what the one before has left.
func TestInstallation(t *testing.T) {
	t.Parallel()
	cp, in := start(t)
	admin := clientset(t, cp.Config)
	stranger := namespaceMaker(t, cp, admin)
	publisher := publisherIn(t, cp, admin)

	t.Run("every policy is in force at once", func(t *testing.T) {
		wantRefusal(t, labelNamespace(t, stranger), "lanyard-namespace-labels")
	})
	t.Run("removed policies are out of force at once, and applied ones in force again", func(t *testing.T) {
		if err := in.RemovePolicies(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantNone(t, labelNamespace(t, stranger))
		if err := in.ApplyPolicies(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantRefusal(t, labelNamespace(t, stranger), "lanyard-namespace-labels")
	})
	t.Run("the webhook injects", func(t *testing.T) {
		wantVolumes(t, publisher, 1)
	})
	t.Run("a paused webhook lets nothing through, and a resumed one goes on", func(t *testing.T) {
		if err := in.Webhook().Pause(); err != nil {
			t.Fatal(err)
		}
		_, err := publisher()
		wantRefusal(t, err, "failed calling webhook")
		if err := in.Webhook().Resume(); err != nil {
			t.Fatal(err)
		}
		wantVolumes(t, publisher, 1)
	})
	t.Run("a killed webhook lets nothing through until it is started again", func(t *testing.T) {
		if err := in.Webhook().Kill(); err != nil {
			t.Fatal(err)
		}
		_, err := publisher()
		wantRefusal(t, err, "failed calling webhook")
		if err := in.Webhook().Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantVolumes(t, publisher, 1)
	})
	t.Run("removed webhook configurations are not called, and applied ones are again", func(t *testing.T) {
		if err := in.RemoveWebhooks(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantVolumes(t, publisher, 0)
		if err := in.ApplyWebhooks(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantVolumes(t, publisher, 1)
	})
	t.Run("the webhook shows its metrics", func(t *testing.T) {
		answer, err := http.Get(in.Webhook().MetricsURL())
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || !strings.Contains(string(text), "lanyard_admission_requests_total") {
			t.Errorf("got %v: %s", err, text)
		}
	})
}

func start(t *testing.T) (*cluster.ControlPlane, *install.Installation) {
	t.Helper()
	cp, err := cluster.Start(t.Context(), cluster.Options{Out: t.Output(), Base: filepath.Join(t.TempDir(), "base")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wantNone(t, cp.Stop(context.Background())) })
	in, err := install.Start(t.Context(), cp, install.Options{Out: t.Output(), Values: "webhook: {timeoutSeconds: 10}"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wantNone(t, in.Stop(context.Background())) })
	return cp, in
}

// namespaceMaker returns the client of a user who may make namespaces and is no platform admin.
func namespaceMaker(t *testing.T, cp *cluster.ControlPlane, admin *kubernetes.Clientset) *kubernetes.Clientset {
	t.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "makes-namespaces"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"create"}}},
	}
	_, err := admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	wantNone(t, err)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: role.ObjectMeta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "makers"}},
	}
	_, err = admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	wantNone(t, err)
	return clientset(t, func() (*rest.Config, error) { return cp.ConfigFor("mallory", "makers") })
}

// labelNamespace makes a managed namespace, by dry run.
func labelNamespace(t *testing.T, client *kubernetes.Clientset) error {
	t.Helper()
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mine", Labels: map[string]string{wire.LabelJobs: wire.JobsManaged}}}
	_, err := client.CoreV1().Namespaces().Create(t.Context(), space, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// publisherIn makes a namespace that is open to publishers and returns what makes a publisher's pod there, by dry run.
func publisherIn(t *testing.T, cp *cluster.ControlPlane, admin *kubernetes.Clientset) func() (*corev1.Pod, error) {
	t.Helper()
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "monitors", Labels: map[string]string{wire.LabelPublishers: wire.PublishersEnabled},
	}}
	_, err := admin.CoreV1().Namespaces().Create(t.Context(), space, metav1.CreateOptions{})
	wantNone(t, err)
	wantNone(t, cp.AwaitServiceAccount(t.Context(), space.Name))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "gpu-", Labels: map[string]string{wire.LabelRole: wire.RolePublisher}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(false),
			Containers:                   []corev1.Container{{Name: "monitor", Image: "registry.example/monitor:1"}},
		},
	}
	return func() (*corev1.Pod, error) {
		return admin.CoreV1().Pods(space.Name).Create(context.Background(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
}

func wantVolumes(t *testing.T, create func() (*corev1.Pod, error), want int) {
	t.Helper()
	pod, err := create()
	wantNone(t, err)
	if got := len(pod.Spec.Volumes); got != want {
		t.Errorf("the pod has %d volumes, want %d", got, want)
	}
}

func wantRefusal(t *testing.T, err error, by string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), by) {
		t.Errorf("got %v, want a refusal that says %q", err, by)
	}
}

func wantNone(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func clientset(t *testing.T, config func() (*rest.Config, error)) *kubernetes.Clientset {
	t.Helper()
	c, err := config()
	wantNone(t, err)
	client, err := kubernetes.NewForConfig(c)
	wantNone(t, err)
	return client
}
