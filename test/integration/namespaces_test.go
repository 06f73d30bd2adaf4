//go:build unix

package integration

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// grantCluster gives a user a ClusterRole everywhere.
func grantCluster(t *testing.T, user, role string) {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	bindings := admin(t).RbacV1().ClusterRoleBindings()
	made, err := bindings.Create(t.Context(), binding, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { restore(t, bindings.Delete(context.Background(), made.Name, metav1.DeleteOptions{})) })
}

// namespaceOwner makes a user who may do anything with namespaces, and waits until the API server knows.
func namespaceOwner(t *testing.T, user string, more ...string) *kubernetes.Clientset {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "namespaces-of-" + user}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces", "namespaces/status", "namespaces/finalize"}, Verbs: []string{"*"}},
	}}
	roles := admin(t).RbacV1().ClusterRoles()
	if _, err := roles.Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { restore(t, roles.Delete(context.Background(), role.Name, metav1.DeleteOptions{})) })
	for _, r := range append(more, role.Name) {
		grantCluster(t, user, r)
	}
	client := as(t, user)
	eventually(t, user+" may make namespaces", func(ctx context.Context) (bool, error) {
		space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "dry-"}}
		_, err := client.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil, err
	})
	return client
}

// TestNamespaceLabelsAreThePlatforms has somebody who owns namespaces try every way to label one.
func TestNamespaceLabelsAreThePlatforms(t *testing.T) {
	t.Parallel()
	owner := namespaceOwner(t, "space-owner")
	plain, labelled := newNamespace(t, nil), managed(t)
	spaces := owner.CoreV1().Namespaces()
	for name, labels := range map[string]map[string]string{
		"managed":           {wire.LabelJobs: wire.JobsManaged},
		"publishers":        {wire.LabelPublishers: wire.PublishersEnabled},
		"anything of ours":  {wire.Prefix + "x": ""},
		"ours among others": {"team": "a", wire.LabelJobs: "x"},
	} {
		t.Run("created "+name, func(t *testing.T) {
			_, err := spaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "own-", Labels: labels}}, metav1.CreateOptions{})
			refused(t, err, "lanyard-namespace-labels", "by platform admins only", "ClusterRole lanyard-platform-admin")
		})
	}
	set := fmt.Sprintf(`{"metadata":{"labels":{%q:"managed"}}}`, wire.LabelJobs)
	for name, tc := range map[string]struct{ namespace, patch string }{
		"set":     {plain, set},
		"changed": {labelled, fmt.Sprintf(`{"metadata":{"labels":{%q:"off"}}}`, wire.LabelJobs)},
		"removed": {labelled, fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, wire.LabelJobs)},
	} {
		for _, subresource := range []string{"", "status"} {
			t.Run(name+" "+subresource, func(t *testing.T) {
				_, err := spaces.Patch(t.Context(), tc.namespace, types.MergePatchType, []byte(tc.patch), metav1.PatchOptions{}, subresources(subresource)...)
				refused(t, err, "lanyard-namespace-labels", "namespace label "+wire.LabelJobs)
			})
		}
		t.Run(name+" by update and finalize", func(t *testing.T) {
			space, err := spaces.Get(t.Context(), tc.namespace, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			space.Labels = map[string]map[string]string{"set": {wire.LabelJobs: "managed"}, "changed": {wire.LabelJobs: "off"}}[name]
			_, err = spaces.Update(t.Context(), space, metav1.UpdateOptions{})
			refused(t, err, "lanyard-namespace-labels")
			_, err = spaces.Finalize(t.Context(), space, metav1.UpdateOptions{})
			refused(t, err, "lanyard-namespace-labels")
		})
	}
	_, err := spaces.Patch(t.Context(), labelled, types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"a"}}}`), metav1.PatchOptions{})
	accepted(t, err)
}

// TestPlatformAdminLabelsNamespaces has the ClusterRole that the chart ships, and nothing else, make the difference.
func TestPlatformAdminLabelsNamespaces(t *testing.T) {
	t.Parallel()
	platform := namespaceOwner(t, "platform-admin", "lanyard-platform-admin")
	spaces := platform.CoreV1().Namespaces()
	namespace := newNamespace(t, nil)
	for _, value := range []string{`"managed"`, `"off"`, `null`} {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, wire.LabelJobs, value)
		_, err := spaces.Patch(t.Context(), namespace, types.MergePatchType, patch, metav1.PatchOptions{})
		accepted(t, err)
	}
}
