//go:build unix

package nodes

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/test/cluster"
)

// routerUser is the user that kube-router acts as.
const routerUser = "lanyard-test:kube-router"

// client is an administrator's.
func (c *Cluster) client() (*kubernetes.Clientset, error) { return kubernetes.NewForConfig(c.Config()) }

// grant lets the API server speak to kubelets, and kube-router read what its rules follow from.
func (c *Cluster) grant(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: routerUser},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"endpoints", "namespaces", "nodes", "pods", "services"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"networkpolicies"}, Verbs: []string{"list", "watch"}},
			{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"list", "watch"}},
		},
	}
	if _, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making the role of kube-router: %w", err)
	}
	for user, role := range map[string]string{routerUser: routerUser, cluster.KubeletClient: "system:kubelet-api-admin"} {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "lanyard-test:" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}
		if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("granting the role %s to %s: %w", role, user, err)
		}
	}
	return nil
}

// startNodes boots all nodes at once and waits until they are ready.
func (c *Cluster) startNodes(ctx context.Context) error {
	for i, name := range Names() {
		n := &node{c: c, n: i + 1, name: name}
		if err := n.install(); err != nil {
			return err
		}
		c.nodes[name] = n
	}
	var wait sync.WaitGroup
	failed := make([]error, count)
	for i, name := range Names() {
		wait.Go(func() { failed[i] = c.Boot(ctx, name) })
	}
	wait.Wait()
	return errors.Join(failed...)
}

// Boot switches a node on and waits until the API server calls it ready. A node whose power was cut comes up with its disk as
// it was; its pods start again.
func (c *Cluster) Boot(ctx context.Context, name string) error {
	n, err := c.node(name)
	if err != nil {
		return err
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	before := heartbeat(ctx, client, name)
	if err := n.boot(ctx); err != nil {
		return err
	}
	err = poll(ctx, func() (bool, error) {
		now := heartbeat(ctx, client, name)
		return now != nil && now.Status == corev1.ConditionTrue && (before == nil || now.LastHeartbeatTime.After(before.LastHeartbeatTime.Time)), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s to be ready: %w; its kubelet's log, %s, ends with\n%s", name, err, n.log(kubelet), tail(n.log(kubelet)))
	}
	c.say("%s ready", name)
	return nil
}

// heartbeat is what a kubelet has last said about its readiness, nil if nothing.
func heartbeat(ctx context.Context, client kubernetes.Interface, name string) *corev1.NodeCondition {
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return &condition
		}
	}
	return nil
}

// PowerCut ends everything on a node at once: kubelet, containers, connections. The control plane is elsewhere and goes on.
func (c *Cluster) PowerCut(name string) error {
	n, err := c.node(name)
	if err != nil {
		return err
	}
	return n.powerCut()
}
