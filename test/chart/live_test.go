//go:build unix

package chart

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// A policy that compiles may still say something else than it means: what matches it, what the API server defaults before
// it looks, which fields an old object has. So the rendered policies are tried on a real API server, without the webhook:
// what the webhook would write, the test writes.

// plane is a control plane with the policies of the chart's default values and one listed publisher.
type plane struct {
	cp  *cluster.ControlPlane
	err error
}

// thePlane is started by the first test that needs it and stopped by TestMain.
var thePlane struct {
	sync.Once
	plane
}

func TestMain(m *testing.M) {
	code := m.Run()
	if thePlane.cp != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = thePlane.cp.Stop(ctx)
	}
	os.Exit(code)
}

// live returns the control plane, or skips where there is none to be had.
func live(t *testing.T) *cluster.ControlPlane {
	t.Helper()
	thePlane.Do(func() {
		thePlane.cp, thePlane.err = cluster.Start(context.Background(), cluster.Options{Out: os.Stderr})
		if thePlane.err == nil {
			prepare(t, thePlane.cp)
		}
	})
	if errors.Is(thePlane.err, program.ErrNoGo) || errors.Is(thePlane.err, program.ErrNoModules) {
		t.Skipf("no control plane to test on: %v", thePlane.err)
	}
	if thePlane.err != nil {
		t.Fatal(thePlane.err)
	}
	return thePlane.cp
}

// prepare makes the namespaces and rights of the tests and applies the chart's policies.
func prepare(t *testing.T, cp *cluster.ControlPlane) {
	t.Helper()
	c := client(t, cp, cluster.Admin, "system:masters")
	for name, labels := range map[string]string{
		"plain": "", "managed": "lanyard.dev/jobs: managed", "offered": "lanyard.dev/publishers: enabled", "gpu": "", Namespace: "",
	} {
		mustCreate(t, c, "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+", labels: {"+labels+"}}}")
		for _, account := range []string{"monitor", "lanyard-connector", "lanyard-test"} {
			mustCreate(t, c, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: "+account+", namespace: "+name+"}}")
		}
	}
	allow(t, cp)
	for _, o := range render(t, "default", "--set", "publishers={gpu/monitor},connector.foreignConditions={KernelDeadlock,Elsewhere}") {
		if strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy") {
			if _, err := c.Resource(resource(o)).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
				t.Fatalf("installing %s %s: %v", o.GetKind(), o.GetName(), err)
			}
		}
	}
	awaitPolicies(t, c)
}

// allow lets everybody who is authenticated write everything that the tests write, platform administration apart: what is
// refused is refused by a policy.
func allow(t *testing.T, cp *cluster.ControlPlane) {
	t.Helper()
	config, err := cp.Config()
	if err != nil {
		t.Fatal(err)
	}
	rbac := kubernetes.NewForConfigOrDie(config).RbacV1()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "writers"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"", "batch", "apps"}, Resources: []string{"*"}, Verbs: []string{"*"}}},
	}
	if _, err := rbac.ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "writers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "writers"},
		Subjects:   []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "Group", Name: "system:authenticated"}},
	}
	if _, err := rbac.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// awaitPolicies waits until the last policy refuses what it must: policies take a moment to reach the admission chain.
func awaitPolicies(t *testing.T, c dynamic.Interface) {
	t.Helper()
	for _, text := range []string{
		"{apiVersion: v1, kind: Pod, metadata: {name: probe, namespace: managed, labels: {lanyard.dev/injected: x}}, spec: {containers: [{name: c, image: i}]}}",
		"{apiVersion: v1, kind: Pod, metadata: {name: probe, namespace: managed}, spec: {containers: [{name: c, image: i}]}}",
		podProjecting("plain", "default", "nemo-platform", ""),
		"{apiVersion: v1, kind: Pod, metadata: {name: probe, namespace: managed, annotations: {lanyard.dev/created-by: " + cluster.Admin + "}}, spec: {containers: [{name: c, image: i, env: [{name: NMP_PRINCIPAL, value: x}]}]}}",
	} {
		err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 3*time.Minute, true, func(context.Context) (bool, error) {
			return apierrors.IsForbidden(create(t, c, text, dryRun)), nil
		})
		if err != nil {
			t.Fatalf("the policies did not come into force: %v", err)
		}
	}
}

const dryRun = true

// client is a dynamic client for a user whom the API server authenticates by a certificate.
func client(t *testing.T, cp *cluster.ControlPlane, user string, groups ...string) dynamic.Interface {
	t.Helper()
	config, err := cp.ConfigFor(user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	config.WarningHandler = rest.NoWarnings{}
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustCreate(t *testing.T, c dynamic.Interface, text string) {
	t.Helper()
	if err := create(t, c, text, !dryRun); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// create creates the object, or has the API server try it.
func create(t *testing.T, c dynamic.Interface, text string, dry bool, subresources ...string) error {
	t.Helper()
	objects, err := Objects([]byte(text))
	if err != nil || len(objects) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	o, options := objects[0], metav1.CreateOptions{}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	where := dynamic.ResourceInterface(c.Resource(resource(o)))
	if o.GetNamespace() != "" {
		where = c.Resource(resource(o)).Namespace(o.GetNamespace())
	}
	_, err = where.Create(t.Context(), o, options, subresources...)
	return err
}

// patch merges into an object by server-side dry run.
func patch(t *testing.T, c dynamic.Interface, gvr schema.GroupVersionResource, namespace, name, body string, subresources ...string) error {
	t.Helper()
	_, err := c.Resource(gvr).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(body),
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
	return err
}
