//go:build linux

package processes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/exchange"
	"github.com/lanyard-k8s/lanyard/test/cluster/install"
	"github.com/lanyard-k8s/lanyard/test/cluster/postgres"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

const (
	release      = "lanyard-system"
	exchangeUser = "system:serviceaccount:" + release + ":lanyard-exchange"
	adminAccount = "records-admin"
	node         = "worker"
	keySecret    = "lanyard-exchange-keys"
	clientID     = "nemo-platform"
	startTimeout = 30 * time.Minute
)

// values are what the chart is installed with; its rights are those that the processes have.
const values = `
exchange: {replicas: 3, store: {driver: postgres, connectionSecret: {name: database}}}
webhook: {timeoutSeconds: 10}
`

// world is the control plane with Lanyard and a PostgreSQL server, that the tests share. They do not run in parallel: there
// is one Secret of keys.
type world struct {
	once       sync.Once
	cp         *cluster.ControlPlane
	in         *install.Installation
	pg         *postgres.Server
	noPostgres error
	admin      *kubernetes.Clientset
	kubelet    *kubernetes.Clientset
	binary     string
	policies   string // the file
	kubeconfig string
	err        error
	databases  int
	templates  templates
}

var shared world

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func (w *world) start() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	var err error
	if w.cp, err = cluster.Start(ctx, cluster.Options{Out: os.Stderr}); err != nil {
		return err
	}
	if w.in, err = install.Start(ctx, w.cp, install.Options{Out: os.Stderr, Namespace: release, Values: values}); err != nil {
		return err
	}
	if w.binary, err = exchange.Build(ctx, os.Stderr); err != nil {
		return err
	}
	text, err := w.in.Objects().ExchangePolicies()
	if err != nil {
		return err
	}
	w.policies = w.cp.Path("policies.json")
	if err := os.WriteFile(w.policies, []byte(text), 0o600); err != nil {
		return err
	}
	if w.kubeconfig, err = w.cp.Kubeconfig(exchangeUser, "system:serviceaccounts", "system:serviceaccounts:"+release); err != nil {
		return err
	}
	if w.admin, err = w.client(cluster.Admin, "system:masters"); err != nil {
		return err
	}
	if w.kubelet, err = w.client("system:node:"+node, "system:nodes", "system:masters"); err != nil {
		return err
	}
	if w.pg, w.noPostgres = postgres.Start(ctx, w.cp); w.noPostgres != nil && !errors.Is(w.noPostgres, postgres.ErrNotInstalled) {
		return w.noPostgres
	}
	return w.furnish(ctx)
}

func (w *world) client(user string, groups ...string) (*kubernetes.Clientset, error) {
	config, err := w.cp.ConfigFor(user, groups...)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// furnish makes the node, and an account that may administer records.
func (w *world) furnish(ctx context.Context) error {
	if _, err := w.admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: adminAccount}}
	if _, err := w.admin.CoreV1().ServiceAccounts(release).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return err
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: adminAccount}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"lanyard.dev"}, Resources: []string{"records"}, Verbs: []string{"get", "list", "patch"}},
	}}
	if _, err := w.admin.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := w.admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: adminAccount},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: release, Name: adminAccount}},
	}, metav1.CreateOptions{})
	return err
}

func (w *world) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	if w.pg != nil {
		errs = append(errs, w.pg.Stop(ctx))
	}
	if w.in != nil {
		errs = append(errs, w.in.Stop(ctx))
	}
	if w.cp != nil {
		errs = append(errs, w.cp.Stop(ctx))
	}
	return errors.Join(errs...)
}

// theWorld starts what is shared, and skips the test where it cannot be built for reasons outside the project.
func theWorld(t *testing.T) *world {
	t.Helper()
	shared.once.Do(func() { shared.err = shared.start() })
	if errors.Is(shared.err, program.ErrNoGo) || errors.Is(shared.err, program.ErrNoModules) {
		t.Skipf("no control plane to test on: %v", shared.err)
	}
	must(t, shared.err)
	return &shared
}

// withPostgres is theWorld for tests that need a PostgreSQL server.
func withPostgres(t *testing.T) *world {
	t.Helper()
	w := theWorld(t)
	if w.noPostgres != nil {
		t.Skipf("SKIPPED: %v", w.noPostgres)
	}
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
