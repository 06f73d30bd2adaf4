package connector

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

// TestADeploymentKnowsItsPublishers sends the same events with and without the caller on the list of publishers.
func TestADeploymentKnowsItsPublishers(t *testing.T) {
	t.Parallel()
	someoneElse := "system:serviceaccount:gpu:other"
	for name, tc := range map[string]struct {
		publishers nodebinding.Accounts
		user       string
		names      []string
		want       row
	}{
		"no list: everybody whose pod runs on a node": {
			user: monitor, names: []string{""}, want: row{kept: []string{foreign}, decision: "node_local", claim: "verified"},
		},
		"on the list": {
			publishers: nodebinding.NewAccounts(monitor), user: monitor, names: []string{foreign},
			want: row{kept: []string{foreign}, decision: "node_local", claim: "verified"},
		},
		"not on the list": {
			publishers: nodebinding.NewAccounts(someoneElse), user: monitor, names: []string{foreign},
			want: row{code: codes.PermissionDenied, violations: map[string]float64{string(nodebinding.PublisherNotListed): 1}},
		},
		"an empty list lets nobody in": {
			publishers: nodebinding.NewAccounts(), user: monitor, names: []string{""},
			want: row{code: codes.PermissionDenied, violations: map[string]float64{string(nodebinding.PublisherNotListed): 1}},
		},
		"but for the cross-node list": {
			publishers: nodebinding.NewAccounts(), user: listed, names: []string{own},
			want: row{kept: []string{own}, decision: "cross_node", claim: "verified"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t, nodebinding.Deployment, func(s *setup) { s.Rules.Publishers = tc.publishers })
			token := bearer(g.backend.of(identity{tc.user, "pod-1", foreign, "uid-b"}))
			checkRow(t, g, tc.want, g.call(t, token, tc.names...))
		})
	}
}
