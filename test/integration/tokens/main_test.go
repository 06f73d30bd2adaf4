//go:build unix

package tokens

import (
	"context"
	"os"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"github.com/lanyard-k8s/lanyard/test/cluster/suite"
)

// audience is what the tokens of the tests are for.
const audience = "platform-connector.nvsentinel.nvidia.com"

// world is the control plane that the tests share; each has its own namespace in it. They do not run in parallel: one of them
// takes the API server away.
type world struct {
	*suite.Plane

	meta metadata.Interface
}

// shared hands TestMain's control plane to the tests; nothing changes it afterwards.
var shared world

func TestMain(m *testing.M) { os.Exit(suite.Run(m, furnish)) }

// furnish lets the reviewer review tokens.
func furnish(ctx context.Context, p *suite.Plane) error {
	shared.Plane = p
	if p.Absent != nil {
		return nil
	}
	config, err := p.Config()
	if err != nil {
		return err
	}
	if shared.meta, err = metadata.NewForConfig(config); err != nil {
		return err
	}
	_, err = p.Admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "lanyard-connector-reviews"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: reviewerUser}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:auth-delegator"},
	}, metav1.CreateOptions{})
	return err
}
