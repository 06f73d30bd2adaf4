//go:build unix

package cluster_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/lanyard-k8s/lanyard/test/cluster"
)

func TestStart(t *testing.T) {
	t.Parallel()
	base := newBase(t)
	cp := start(t, base)
	other := start(t, base)

	t.Run("the version is the one that go.mod names", func(t *testing.T) {
		info, err := client(t, cp.Config).Discovery().ServerVersion()
		if err != nil {
			t.Fatal(err)
		}
		if info.GitVersion != cp.Version() {
			t.Errorf("the server says %s, go.mod says %s", info.GitVersion, cp.Version())
		}
	})
	t.Run("a user is who the certificate says, with what RBAC allows", func(t *testing.T) {
		someone := client(t, func() (*rest.Config, error) { return cp.ConfigFor("alice", "team-a") })
		review, err := someone.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := review.Status.UserInfo; got.Username != "alice" || got.Groups[0] != "team-a" {
			t.Errorf("authenticated as %q in %q", got.Username, got.Groups)
		}
		_, err = someone.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("listing Secrets gave %v, want forbidden", err)
		}
	})
	t.Run("what one cluster has the other has not", func(t *testing.T) {
		space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "only-here"}}
		if _, err := client(t, cp.Config).CoreV1().Namespaces().Create(t.Context(), space, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err := client(t, other.Config).CoreV1().Namespaces().Get(t.Context(), "only-here", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("the other cluster answered %v, want not found", err)
		}
	})
	t.Run("the audit log has the request, with who and what came of it", func(t *testing.T) {
		e, err := cp.AwaitAudit(t.Context(), func(e cluster.AuditEvent) bool {
			return e.Verb == "list" && e.ObjectRef.Resource == "secrets" && e.User.Username == "alice"
		})
		if err != nil {
			t.Fatal(err)
		}
		if e.ResponseStatus.Code != 403 || e.Annotations["authorization.k8s.io/decision"] != "forbid" {
			t.Errorf("noted as %+v", e)
		}
	})
	t.Run("kubectl works by a kubeconfig", func(t *testing.T) {
		kubeconfig, err := cp.Kubeconfig(cluster.Admin)
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), cp.Kubectl(), "--kubeconfig", kubeconfig, "get", "namespace", "kube-system", "-o", "name").CombinedOutput()
		if err != nil || string(out) != "namespace/kube-system\n" {
			t.Errorf("kubectl: %v: %s", err, out)
		}
	})
	t.Run("the API server comes back with its data", func(t *testing.T) {
		for _, c := range []cluster.Component{cluster.APIServer, cluster.Etcd, cluster.ControllerManager} {
			if err := cp.Restart(t.Context(), c); err != nil {
				t.Fatalf("restarting %s: %v", c, err)
			}
		}
		if _, err := client(t, cp.Config).CoreV1().Namespaces().Get(t.Context(), "only-here", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})
	t.Run("a paused API server keeps silent until it is resumed", func(t *testing.T) {
		if err := cp.Pause(cluster.APIServer); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := client(t, cp.Config).CoreV1().Namespaces().Get(ctx, "only-here", metav1.GetOptions{})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a paused server gave %v, want no answer", err)
		}
		if err := cp.Resume(cluster.APIServer); err != nil {
			t.Fatal(err)
		}
		if _, err := client(t, cp.Config).CoreV1().Namespaces().Get(t.Context(), "only-here", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})
	t.Run("stopping leaves no process and no folder", func(t *testing.T) {
		path := cp.Path()
		if err := cp.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := processes(t, path); len(left) > 0 {
			t.Errorf("processes left: %s", strings.Join(left, "\n"))
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the folder is still there: %v", err)
		}
	})
}

func TestStartTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := cluster.Start(t.Context(), cluster.Options{Base: newBase(t), APIServerArgs: []string{"--no-such-flag"}})
	if err == nil {
		t.Fatal("an API server with an unknown flag came up")
	}
	for _, want := range []string{"kube-apiserver: it has ended", "log/kube-apiserver.log", "unknown flag: --no-such-flag"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not contain %q: %v", want, err)
		}
	}
}

// newBase returns a folder for runs that only this test uses.
func newBase(t *testing.T) string {
	t.Helper()
	base := filepath.Join(t.TempDir(), "base")
	if err := os.Mkdir(base, 0o700); err != nil {
		t.Fatal(err)
	}
	return base
}

// start starts a control plane that is stopped with the test.
func start(t *testing.T, base string) *cluster.ControlPlane {
	t.Helper()
	cp, err := cluster.Start(t.Context(), cluster.Options{Out: t.Output(), Base: base})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := os.Stat(cp.Path()); errors.Is(err, os.ErrNotExist) {
			return
		}
		if err := cp.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return cp
}

func client(t *testing.T, config func() (*rest.Config, error)) *kubernetes.Clientset {
	t.Helper()
	c, err := config()
	if err != nil {
		t.Fatal(err)
	}
	clientset, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return clientset
}
