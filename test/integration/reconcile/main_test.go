//go:build unix

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation/sqlite"
	"github.com/lanyard-k8s/lanyard/policy"
	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/install"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

const (
	release        = "lanyard-system"
	exchangeUser   = "system:serviceaccount:" + release + ":lanyard-exchange"
	submitter      = "system:serviceaccount:lanyard-platform:submitter"
	jobController  = "system:serviceaccount:kube-system:job-controller"
	cronController = "system:serviceaccount:kube-system:cronjob-controller"
	trainingOwner  = "system:serviceaccount:kubeflow:training-operator"              // makes the pods of PyTorchJobs
	setController  = "system:serviceaccount:jobset-system:jobset-controller-manager" // makes the Jobs of JobSets
	node           = "worker"
	startTimeout   = 30 * time.Minute
)

// values are what the chart is installed with.
const values = `
allowedSubmitterServiceAccounts: ["` + submitter + `"]
jobKinds:
  - {group: batch, kind: Job, resource: jobs, podCreators: ["` + jobController + `"],
     adoptionLabels: [batch.kubernetes.io/controller-uid, controller-uid, batch.kubernetes.io/job-name, job-name]}
  - {group: kubeflow.org, kind: PyTorchJob, podCreators: ["` + trainingOwner + `"], adoptionLabels: [training.kubeflow.org/job-name]}
delegatingControllers:
  - {identity: "` + cronController + `", parents: [batch/CronJob]}
  - {identity: "` + setController + `", parents: [jobset.x-k8s.io/JobSet]}
webhook: {timeoutSeconds: 10}
`

// settings are what the exchange must make of these values.
func settings() policy.Settings {
	return policy.Settings{
		Mode: policy.Enforce, Jobs: true,
		PublisherAudience: wire.DefaultPublisherAudience, JobAudience: wire.DefaultJobAudience,
		JobTokenFile: wire.DefaultJobMountPath + "/" + wire.TokenFile,
		ReleaseAccounts: []string{
			"system:serviceaccount:" + release + ":lanyard-connector", "system:serviceaccount:" + release + ":lanyard-connector-deployment", exchangeUser,
		},
		Kinds: []policy.Kind{{
			Group: "batch", Kind: "Job", Resource: "jobs", PodCreators: []string{jobController},
			AdoptionLabels: []string{"batch.kubernetes.io/controller-uid", "controller-uid", "batch.kubernetes.io/job-name", "job-name"},
		}, {
			Group: "kubeflow.org", Kind: "PyTorchJob", PodCreators: []string{trainingOwner}, AdoptionLabels: []string{"training.kubeflow.org/job-name"},
		}},
		Delegating: []policy.Controller{
			{Identity: cronController, Parents: []string{"batch/CronJob"}}, {Identity: setController, Parents: []string{"jobset.x-k8s.io/JobSet"}},
		},
		Submitters:         []string{submitter},
		ExcludedNamespaces: []string{"kube-system", "kube-public", "kube-node-lease", release},
	}
}

// world is the control plane with Lanyard on it, and the store, that the tests share. They do not run in parallel: some of them
// take policies away.
type world struct {
	once  sync.Once
	cp    *cluster.ControlPlane
	in    *install.Installation
	admin *kubernetes.Clientset
	dir   string
	store *sqlite.Store
	err   error
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
	if w.cp, w.err = cluster.Start(ctx, cluster.Options{Out: os.Stderr}); w.err != nil {
		return w.err
	}
	var err error
	if w.in, err = install.Start(ctx, w.cp, install.Options{Out: os.Stderr, Namespace: release, Values: values}); err != nil {
		return err
	}
	config, err := w.cp.Config()
	if err != nil {
		return err
	}
	if w.admin, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if err := w.allow(ctx); err != nil {
		return err
	}
	if _, err := w.admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if w.dir, err = os.MkdirTemp("", "lanyard-reconcile-"); err != nil {
		return err
	}
	return w.open(ctx)
}

// open opens the database, as an exchange does that starts.
func (w *world) open(ctx context.Context) error {
	dir := filepath.Join(w.dir, "db")
	if err := sqlite.Migrate(ctx, dir); err != nil {
		return err
	}
	var err error
	w.store, err = sqlite.Open(ctx, dir)
	return err
}

// allow gives the exchange the rights of the chart's table, and no more.
func (w *world) allow(ctx context.Context) error {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "test-exchange"}}
	for _, r := range []struct {
		group     string
		resources []string
		verbs     []string
	}{
		{"", []string{"pods", "namespaces"}, []string{"get", "list", "watch"}},
		{"batch", []string{"jobs", "cronjobs"}, []string{"get", "list", "watch"}},
		{"kubeflow.org", []string{"pytorchjobs"}, []string{"get", "list", "watch"}},
		{"jobset.x-k8s.io", []string{"jobsets"}, []string{"get", "list", "watch"}},
		{"admissionregistration.k8s.io", []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"}, []string{"get", "list", "watch"}},
		{"", []string{"events"}, []string{"create", "patch"}},
		{"coordination.k8s.io", []string{"leases"}, []string{"get", "create", "update"}},
	} {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{r.group}, Resources: r.resources, Verbs: r.verbs})
	}
	if _, err := w.admin.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := w.admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "test-exchange"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: exchangeUser}},
	}, metav1.CreateOptions{})
	return err
}

func (w *world) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	if w.store != nil {
		errs = append(errs, w.store.Close(), os.RemoveAll(w.dir))
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
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return &shared
}

// config is what a user acts by.
func (w *world) config(t *testing.T, user string, groups ...string) *rest.Config {
	t.Helper()
	c, err := w.cp.ConfigFor(user, groups...)
	must(t, err)
	return c
}

// as is a user's client.
func (w *world) as(t *testing.T, user string, groups ...string) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(w.config(t, user, groups...))
	must(t, err)
	return c
}

// namespace makes a namespace that some users may edit, managed or not, and goes away with the test.
func (w *world) namespace(t *testing.T, managed bool, editors ...string) string {
	t.Helper()
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "runs-"}}
	if managed {
		space.Labels = map[string]string{wire.LabelJobs: wire.JobsManaged}
	}
	space, err := w.admin.CoreV1().Namespaces().Create(t.Context(), space, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		if err := w.admin.CoreV1().Namespaces().Delete(context.Background(), space.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	must(t, w.cp.AwaitServiceAccount(t.Context(), space.Name))
	for _, user := range editors {
		_, err := w.admin.RbacV1().RoleBindings(space.Name).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "edit-"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}, metav1.CreateOptions{})
		must(t, err)
		timing.Within(t, 2*time.Minute, user+" may list pods", func() bool {
			_, err := w.as(t, user).CoreV1().Pods(space.Name).List(t.Context(), metav1.ListOptions{Limit: 1})
			return err == nil
		})
	}
	return space.Name
}
