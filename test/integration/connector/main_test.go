//go:build linux

package connector

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
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// The actors.
const (
	audience = "platform-connector.nvsentinel.nvidia.com"
	// connectorUser is whom the connector acts as, with the rights of both roles and more: it may watch pods everywhere. What it
	// does with the rights that the chart gives is tried in rights_test.go.
	connectorUser = "system:serviceaccount:lanyard:connector"
)

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
	w := &world{ControlPlane: cp, program: cp.Path("connector")}
	if w.admin, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if w.kubeconfig, err = cp.Kubeconfig(connectorUser); err != nil {
		return nil, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", w.program, "./cmd/connector")
	build.Dir = filepath.Join("..", "..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the connector: %w: %s", err, out)
	}
	return w, w.allow(ctx)
}

// allow gives the connector's account its rights.
func (w *world) allow(ctx context.Context) error {
	rbac := w.admin.RbacV1()
	_, err := rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "connector"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
			{APIGroups: []string{""}, Resources: []string{"pods", "nodes"}, Verbs: []string{"get", "list", "watch"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "connector"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: connectorUser}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "connector"},
	}, metav1.CreateOptions{})
	return err
}
