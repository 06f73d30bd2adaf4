//go:build linux

package connector

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/install"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// releaseNamespace is where the chart is installed.
const releaseNamespace = "lanyard"

// chart is what the chart gives a connector: both of its files, and an account with exactly the rights that it renders.
type chart struct {
	*home
	objects install.Objects
	apply   client.Client
	account string
}

// chart renders the chart with further values and applies what says what the connector of a role may do, as helm would. The
// objects that skip picks are left out, as if somebody had removed them.
func (h *home) chart(account, values string, skip func(*unstructured.Unstructured) bool) *chart {
	h.t.Helper()
	helm, err := install.BuildHelm(h.t.Context(), os.Stderr)
	must(h.t, err)
	config, err := h.Config()
	must(h.t, err)
	c := &chart{home: h, account: account}
	c.apply, err = client.New(config, client.Options{Scheme: scheme.Scheme})
	must(h.t, err)
	c.objects, err = install.Render(h.t.Context(), helm, h.Version(), releaseNamespace, values, h.CA())
	must(h.t, err)
	h.space(releaseNamespace)
	c.unfence()
	h.t.Cleanup(c.unfence)
	for _, kind := range []string{
		"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "FlowSchema",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	} {
		for _, o := range c.objects {
			if o.GetKind() == kind && (strings.HasPrefix(o.GetName(), "lanyard-connector") || o.GetName() == wire.PolicyNodeStatus) && !skip(o) {
				c.put(o)
			}
		}
	}
	return c
}

// put applies one object on the server's side.
func (c *chart) put(o *unstructured.Unstructured) {
	c.t.Helper()
	must(c.t, c.apply.Apply(c.t.Context(), client.ApplyConfigurationFromUnstructured(o.DeepCopy()), client.FieldOwner("helm"), client.ForceOwnership))
}

// unfence removes the policy, whose name other tests need, too.
func (c *chart) unfence() {
	admission := c.Admin.AdmissionregistrationV1()
	_ = admission.ValidatingAdmissionPolicyBindings().Delete(context.Background(), wire.PolicyNodeStatus, metav1.DeleteOptions{})
	_ = admission.ValidatingAdmissionPolicies().Delete(context.Background(), wire.PolicyNodeStatus, metav1.DeleteOptions{})
}

// find returns a rendered object.
func (c *chart) find(kind, namespace, name string) *unstructured.Unstructured {
	c.t.Helper()
	for _, o := range c.objects {
		if o.GetKind() == kind && o.GetNamespace() == namespace && o.GetName() == name {
			return o
		}
	}
	c.t.Fatalf("the chart renders no %s %s/%s", kind, namespace, name)
	return nil
}

// file is one in a rendered ConfigMap.
func (c *chart) file(configMap, key string) string {
	c.t.Helper()
	text, found, err := unstructured.NestedString(c.find("ConfigMap", releaseNamespace, configMap).Object, "data", key)
	must(c.t, err)
	if !found {
		c.t.Fatalf("ConfigMap %s has no %s", configMap, key)
	}
	return text
}

// run starts the program on the home's first node, with the rendered files and tokens of its own pod, as the kubelet would
// project them, and returns the API server as the program sees it, too.
func (c *chart) run() (*running, *kubernetes.Clientset) {
	c.t.Helper()
	own := c.in(releaseNamespace)
	pod := own.pod(c.node.Name, c.account, c.node.Name)
	api := own.token(c.account, bound(pod), "")
	user := kubernetes.NewForConfigOrDie(c.ConfigForToken(api))
	settings := "lanyard-connector-socket"
	if c.account == wire.AccountDeploymentConnector {
		settings = c.account
	} else {
		c.awaitFence(user)
	}
	r := c.prepare(func(p *plan) {
		p.deployment, p.config = c.account == wire.AccountDeploymentConnector, nil
		must(c.t, json.Unmarshal([]byte(c.file("lanyard-connector", "config.json")), &p.config))
		p.settings = strings.ReplaceAll(c.file(settings, "settings.yaml"), "/var/", "DIR/var/")
	})
	for path, content := range map[string]string{
		"var/run/secrets/kubernetes.io/serviceaccount/token": api, "var/run/secrets/lanyard/connector/token": own.of(pod),
	} {
		must(c.t, os.MkdirAll(filepath.Dir(r.file(path)), 0o700))
		must(c.t, os.WriteFile(r.file(path), []byte(content), 0o600))
	}
	must(c.t, os.MkdirAll(r.file("var/lib/lanyard/spool"), 0o755))
	r.args[slices.Index(r.args, c.kubeconfig)] = c.ownKubeconfig(r, api)
	start := time.Now()
	r.begin()
	c.t.Logf("ready after %s", time.Since(start))
	return r, user
}

// ownKubeconfig is what stands for the in-cluster configuration.
func (c *chart) ownKubeconfig(r *running, token string) string {
	c.t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: c.URL(), CertificateAuthorityData: c.CA()}
	config.AuthInfos["c"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "c"}
	config.CurrentContext = "c"
	must(c.t, clientcmd.WriteToFile(*config, r.file("kubeconfig")))
	return r.file("kubeconfig")
}

// awaitFence waits until the policy is in force, without which the program would not start.
func (c *chart) awaitFence(user *kubernetes.Clientset) {
	c.t.Helper()
	timing.Within(c.t, 2*time.Minute, "the policy is in force", func() bool {
		err := condition(c.t.Context(), user, c.node.Name, "lanyard.dev/probe", metav1.DryRunAll)
		return err != nil && strings.Contains(err.Error(), wire.PolicyNodeStatus)
	})
}

// condition patches one condition of a node.
func condition(ctx context.Context, user *kubernetes.Clientset, node, kind string, dryRun ...string) error {
	body := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"True","reason":%q}]}}`, kind, kind+wire.ReasonUnhealthySuffix)
	_, err := user.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{DryRun: dryRun}, "status")
	return err
}

// denied are the requests of the account that RBAC has refused so far, "verb resource in namespace", each once.
func (c *chart) denied() []string {
	return c.requests(func(e cluster.AuditEvent) bool { return e.Annotations["authorization.k8s.io/decision"] == "forbid" })
}

// requests are those of the account that are picked, "verb resource in namespace", each once.
func (c *chart) requests(pick func(cluster.AuditEvent) bool) []string {
	c.t.Helper()
	events, err := c.AuditEvents()
	must(c.t, err)
	var all []string
	for _, e := range events {
		if e.User.Username != (wire.Account{Namespace: releaseNamespace, Name: c.account}).Username() || !pick(e) {
			continue
		}
		what := e.Verb + " " + strings.TrimSuffix(e.ObjectRef.Resource+"/"+e.ObjectRef.Subresource, "/")
		if e.ObjectRef.Namespace != "" {
			what += " in " + e.ObjectRef.Namespace
		}
		all = append(all, what)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// in is the home in another namespace.
func (h *home) in(namespace string) *home {
	other := *h
	other.namespace = namespace
	return &other
}

// space makes a namespace, unless it is there.
func (h *home) space(name string) {
	h.t.Helper()
	_, err := h.Admin.CoreV1().Namespaces().Create(h.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		must(h.t, err)
	}
	must(h.t, h.AwaitServiceAccount(h.t.Context(), name))
}

func logged(t testing.TB, what string, lines []string) {
	t.Helper()
	t.Logf("%s:\n  %s", what, strings.Join(lines, "\n  "))
}
