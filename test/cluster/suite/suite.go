//go:build unix

// Package suite gives all tests of a package one control plane, from TestMain on.
package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
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

// Plane is a control plane and its admin.
type Plane struct {
	*cluster.ControlPlane

	// Absent is why there is no control plane, for reasons outside the project; all else is nil then.
	Absent error
	Admin  *kubernetes.Clientset
}

// Run starts a control plane, hands it to furnish, runs the tests and ends it. It returns the exit code. Where no control plane can
// be had for reasons outside the project, furnish gets a Plane that says so and whose tests skip.
func Run(m *testing.M, furnish func(context.Context, *Plane) error) int {
	ctx := context.Background()
	ctrl.SetLogger(logr.Discard()) // its clients complain once if nobody says where to log to
	p, err := start(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer p.stop()
	if err := furnish(ctx, p); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func start(ctx context.Context) (*Plane, error) {
	cp, err := cluster.Start(ctx, cluster.Options{Out: os.Stderr})
	if errors.Is(err, program.ErrNoGo) || errors.Is(err, program.ErrNoModules) {
		return &Plane{Absent: err}, nil
	}
	if err != nil {
		return nil, err
	}
	p := &Plane{ControlPlane: cp}
	config, err := cp.Config()
	if err == nil {
		p.Admin, err = kubernetes.NewForConfig(config)
	}
	if err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *Plane) stop() {
	if p.Absent != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// Namespace makes a namespace, of a name that begins with prefix and is new, with service accounts, and returns its name. The test
// skips where there is no control plane.
func (p *Plane) Namespace(t *testing.T, prefix string, accounts ...string) string {
	t.Helper()
	if p.Absent != nil {
		t.Skipf("no control plane to test on: %v", p.Absent)
	}
	ns, err := p.Admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AwaitServiceAccount(t.Context(), ns.Name); err != nil {
		t.Fatal(err)
	}
	for _, name := range accounts {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := p.Admin.CoreV1().ServiceAccounts(ns.Name).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return ns.Name
}

// Grant gives a user rights in the whole cluster, by a role and a binding of a name.
func (p *Plane) Grant(ctx context.Context, name, user string, rules ...rbacv1.PolicyRule) error {
	rbac, meta := p.Admin.RbacV1(), metav1.ObjectMeta{Name: name}
	if _, err := rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}, metav1.CreateOptions{})
	return err
}
