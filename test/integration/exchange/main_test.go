//go:build linux

package exchange

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// exchangeUser is whom the exchange acts as, with the rights that the chart gives it for what is tried here.
const exchangeUser = "system:serviceaccount:lanyard:exchange"

// system is the exchange's own namespace.
const system = "lanyard"

// world is the control plane and the built program. The tests do not run in parallel: one of them takes the API server away.
type world struct {
	*cluster.ControlPlane
	absent     error // why there is no control plane, for reasons outside the project
	admin      *kubernetes.Clientset
	program    string
	kubeconfig string
}

// shared hands TestMain's control plane to the tests; nothing changes it afterwards.
var shared *world

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx := context.Background()
	ctrl.SetLogger(logr.Discard()) // its clients complain once if nobody says where to log to
	cp, err := cluster.Start(ctx, cluster.Options{Out: os.Stderr})
	if errors.Is(err, program.ErrNoGo) || errors.Is(err, program.ErrNoModules) {
		shared = &world{absent: err}
		return m.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		if err := cp.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	if shared, err = newWorld(ctx, cp); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func newWorld(ctx context.Context, cp *cluster.ControlPlane) (*world, error) {
	config, err := cp.Config()
	if err != nil {
		return nil, err
	}
	w := &world{ControlPlane: cp, program: cp.Path("exchange")}
	if w.admin, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if w.kubeconfig, err = cp.Kubeconfig(exchangeUser); err != nil {
		return nil, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", w.program, "./cmd/exchange")
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the exchange: %w: %s", err, out)
	}
	return w, w.allow(ctx)
}

// allow makes the namespace and the rights: reviews, a look at pods, and one Secret by its name.
func (w *world) allow(ctx context.Context) error {
	_, err := w.admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := w.AwaitServiceAccount(ctx, system); err != nil {
		return err
	}
	rbac, subjects := w.admin.RbacV1(), []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: exchangeUser}}
	_, err = rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "exchange"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
			{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "exchange"}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "exchange"},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = rbac.Roles(system).Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "exchange"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{keySecret}, Verbs: []string{"get", "update"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = rbac.RoleBindings(system).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "exchange"}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "exchange"},
	}, metav1.CreateOptions{})
	return err
}

// keySecret is the one Secret that the exchange may touch.
const keySecret = "lanyard-exchange-keys"
