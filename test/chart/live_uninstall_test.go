//go:build unix

package chart

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// TestAnInstallWithoutAnImageIsTakenAwayByThePages installs a release none of whose pods ever runs, which is what an image that cannot be
// pulled comes to, and takes it away as docs/upgrade.md says: the hook's Job fails, and helm stops; without hooks the release goes, and
// what the page then has deleted by hand is all that is left.
func TestAnInstallWithoutAnImageIsTakenAwayByThePages(t *testing.T) {
	t.Parallel()
	cp, err := cluster.Start(t.Context(), cluster.Options{Out: os.Stderr})
	if errors.Is(err, program.ErrNoGo) || errors.Is(err, program.ErrNoModules) {
		t.Skipf("no control plane to test on: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c := client(t, cp, cluster.Admin, "system:masters")
	mustCreate(t, c, "{apiVersion: v1, kind: Namespace, metadata: {name: "+Namespace+"}}")
	h, config := findHelm(t), adminConfig(t, cp)
	helm := func(args ...string) error {
		out, err := h.run(t.Context(), append(args, "--namespace="+Namespace, "--kubeconfig="+config)...)
		if err != nil {
			t.Logf("%s: %v: %s", args[0], err, out)
		}
		return err
	}
	install := []string{"install", "lanyard", h.chart, "-f", "testdata/profiles/no-cert-manager.yaml"}
	if err := helm(install...); err != nil {
		t.Fatal(err)
	}
	// The Job's own deadline is two minutes; nothing is different after five seconds.
	if err := helm("uninstall", "lanyard", "--timeout=5s"); err == nil || !strings.Contains(err.Error(), "timed out waiting for the condition") {
		t.Fatalf("helm did not stop at the hook: %v", err)
	}
	if err := helm("uninstall", "lanyard", "--no-hooks"); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/upgrade.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "helm uninstall lanyard --namespace lanyard --no-hooks\n")
	if !found {
		t.Fatal("docs/upgrade.md does not say how to uninstall without hooks")
	}
	var told []string
	for _, m := range regexp.MustCompile(`\b(serviceaccount|job|clusterrole|clusterrolebinding|pvc|secret|configmap|lease)/([a-z-]+)`).FindAllStringSubmatch(section, -1) {
		told = append(told, m[1]+"/"+m[2])
	}
	left := remains(t, c)
	for _, o := range left {
		if !slices.Contains(told, o) {
			t.Errorf("docs/upgrade.md does not take %s away", o)
		}
	}
	if diff := cmp.Diff([]string{"job/lanyard-uninstall", "pvc/lanyard-exchange-store", "secret/lanyard-exchange-keys"}, left); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}

// remains are the release's objects on the control plane, as kubectl names them.
func remains(t *testing.T, c dynamic.Interface) (left []string) {
	t.Helper()
	for name, gvr := range map[string]schema.GroupVersionResource{
		"serviceaccount": {Version: "v1", Resource: "serviceaccounts"}, "secret": {Version: "v1", Resource: "secrets"},
		"configmap": {Version: "v1", Resource: "configmaps"}, "service": {Version: "v1", Resource: "services"}, "pvc": {Version: "v1", Resource: "persistentvolumeclaims"},
		"job": {Group: "batch", Version: "v1", Resource: "jobs"}, "deployment": {Group: "apps", Version: "v1", Resource: "deployments"},
		"daemonset":   {Group: "apps", Version: "v1", Resource: "daemonsets"},
		"clusterrole": {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
		"role":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}, "rolebinding": {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
		"clusterrolebinding": {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
		"networkpolicy":      {Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
		"policy":             {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"},
		"webhooks":           {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
		"flowschema":         {Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Resource: "flowschemas"},
	} {
		list, err := c.Resource(gvr).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=lanyard"})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatalf("%s: %v", name, err)
		}
		for _, o := range list.Items {
			if o.GetDeletionTimestamp() == nil {
				left = append(left, name+"/"+o.GetName())
			}
		}
	}
	slices.Sort(left)
	return left
}

// adminConfig writes a kubeconfig of a cluster admin's.
func adminConfig(t *testing.T, cp *cluster.ControlPlane) string {
	t.Helper()
	user, err := cp.ConfigFor(cluster.Admin, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: cp.URL(), CertificateAuthorityData: cp.CA()}
	config.AuthInfos["c"] = &clientcmdapi.AuthInfo{ClientCertificateData: user.CertData, ClientKeyData: user.KeyData}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "c"}
	config.CurrentContext = "c"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
