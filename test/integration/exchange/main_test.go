//go:build linux

package exchange

import (
	"context"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/test/cluster/exchange"
	"github.com/lanyard-k8s/lanyard/test/cluster/suite"
)

// exchangeUser is whom the exchange acts as, with the rights that the chart gives it for what is tried here.
const exchangeUser = "system:serviceaccount:lanyard:exchange"

// system is the exchange's own namespace.
const system = "lanyard"

// keySecret is the one Secret that the exchange may touch.
const keySecret = "lanyard-exchange-keys"

// world is the control plane and the built program. The tests do not run in parallel: one of them takes the API server away.
type world struct {
	*suite.Plane

	program    string
	kubeconfig string
}

// shared hands TestMain's control plane to the tests; nothing changes it afterwards.
var shared world

func TestMain(m *testing.M) { os.Exit(suite.Run(m, furnish)) }

// furnish builds the program and gives its account its rights.
func furnish(ctx context.Context, p *suite.Plane) error {
	shared.Plane = p
	if p.Absent != nil {
		return nil
	}
	var err error
	if shared.program, err = exchange.Build(ctx, os.Stderr); err != nil {
		return err
	}
	if shared.kubeconfig, err = p.Kubeconfig(exchangeUser); err != nil {
		return err
	}
	return allow(ctx, p)
}

// allow makes the namespace and the rights: reviews, a look at pods, and one Secret by its name.
func allow(ctx context.Context, p *suite.Plane) error {
	_, err := p.Admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := p.AwaitServiceAccount(ctx, system); err != nil {
		return err
	}
	err = p.Grant(ctx, "exchange", exchangeUser,
		rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}})
	if err != nil {
		return err
	}
	rbac, meta := p.Admin.RbacV1(), metav1.ObjectMeta{Name: "exchange"}
	_, err = rbac.Roles(system).Create(ctx, &rbacv1.Role{
		ObjectMeta: meta,
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{keySecret}, Verbs: []string{"get", "update"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = rbac.RoleBindings(system).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: exchangeUser}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
	}, metav1.CreateOptions{})
	return err
}
