//go:build linux

package connector

import (
	"context"
	"os"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/lanyard-k8s/lanyard/test/cluster/program"
	"github.com/lanyard-k8s/lanyard/test/cluster/suite"
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
	tree, err := program.Tree()
	if err != nil {
		return err
	}
	if shared.program, err = program.Build(ctx, os.Stderr, program.Source{Name: "connector", Dir: tree, Package: "./cmd/connector"}); err != nil {
		return err
	}
	if shared.kubeconfig, err = p.Kubeconfig(connectorUser); err != nil {
		return err
	}
	return p.Grant(ctx, "connector", connectorUser,
		rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods", "nodes"}, Verbs: []string{"get", "list", "watch"}})
}
