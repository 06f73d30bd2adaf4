//go:build unix

package nodes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes"
)

func testProjectedToken(t *testing.T, c *nodes.Cluster) {
	for _, node := range nodes.Names() {
		token, err := probe(t.Context(), t, c, node, "cat", "/token/token")
		if err != nil {
			t.Fatal(err)
		}
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{"broker.example"}}}
		review, err = client(t, c).AuthenticationV1().TokenReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		extra := review.Status.User.Extra
		got := fmt.Sprint(review.Status.Authenticated, review.Status.Audiences, review.Status.User.Username,
			extra["authentication.kubernetes.io/pod-name"], extra["authentication.kubernetes.io/node-name"])
		want := fmt.Sprint(true, []string{"broker.example"}, "system:serviceaccount:default:probe", []string{probeOn(t, c, node).Name}, []string{node})
		if got != want {
			t.Errorf("%s: the token says %s, want %s (%s)", node, got, want, review.Status.Error)
		}
	}
}

func testNodeRestriction(t *testing.T, c *nodes.Cluster) {
	second, err := kubernetes.NewForConfig(c.ConfigFor("system:node:node2", "system:nodes"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ node, audience, want string }{
		{"node2", "broker.example", ""},
		{"node2", "other.example", "system:node:node2 is not authorized to request tokens for audience \"other.example\""},
		{"node1", "broker.example", "node requested token bound to a pod scheduled on a different node"},
	} {
		pod := probeOn(t, c, tc.node)
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			Audiences:      []string{tc.audience},
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
		}}
		_, err := second.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "probe", request, metav1.CreateOptions{})
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("node2 was refused a token for its own pod: %v", err)
		case tc.want != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("node2 asking for a token for %s on %s: %v, want forbidden: %s", tc.audience, tc.node, err, tc.want)
		}
	}
	if _, err := second.CoreV1().Nodes().Get(t.Context(), "node1", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("node2 reading node1: %v, want forbidden", err)
	}
}

func testDisks(t *testing.T, c *nodes.Cluster) {
	for _, node := range nodes.Names() {
		if out, err := probe(t.Context(), t, c, node, "write", "/disk/name", node); err != nil {
			t.Fatal(out, err)
		}
	}
	for _, node := range nodes.Names() {
		got, err := os.ReadFile(c.NodeDir(node, "var/lib/probe/name"))
		if err != nil || string(got) != node {
			t.Errorf("%s has %q (%v) on its disk, want its own name", node, got, err)
		}
		if got, err := c.InNode(t.Context(), node, "hostname"); err != nil || strings.TrimSpace(got) != node {
			t.Errorf("%s calls itself %q (%v)", node, got, err)
		}
	}
	if _, err := os.Stat(filepath.Join("/var/lib/probe", "name")); err == nil {
		t.Error("a folder of the node's is this machine's")
	}
}
