//go:build unix

package chart

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// What the chart renders for the connector is one thing with the program: its flags, both files, the account's rights and the
// policy that fences it. So the program is run as the DaemonSet would, with the account's own token, on a control plane of
// its own, where nobody has more rights than the chart gives.

// rig is a control plane with the chart's rights and policies, and a folder that stands for the container's file system.
type rig struct {
	t       *testing.T
	cp      *cluster.ControlPlane
	admin   *kubernetes.Clientset
	objects []*unstructured.Unstructured
	root    string
}

func newRig(t *testing.T, args ...string) *rig {
	t.Helper()
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
	r := &rig{t: t, cp: cp, objects: render(t, "default", args...), root: t.TempDir()}
	config, err := cp.Config()
	r.must(err)
	r.admin = kubernetes.NewForConfigOrDie(config)
	c := client(t, cp, cluster.Admin, "system:masters")
	for _, namespace := range []string{Namespace, "gpu"} {
		mustCreate(t, c, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}")
	}
	for _, node := range []string{"node-a", "node-b"} {
		mustCreate(t, c, "{apiVersion: v1, kind: Node, metadata: {name: "+node+"}}")
	}
	for _, o := range r.objects {
		switch o.GetKind() {
		case "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "RoleBinding", "FlowSchema", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
			raw, err := o.MarshalJSON()
			r.must(err)
			mustCreate(t, c, string(raw))
		}
	}
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// token is one of the account's, bound to its pod, as the kubelet would project it.
func (r *rig) token(pod *corev1.Pod, audiences ...string) string {
	r.t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: audiences, BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}
	user, err := r.cp.ConfigFor("system:node:"+pod.Spec.NodeName, "system:nodes", "system:masters")
	r.must(err)
	answer, err := kubernetes.NewForConfigOrDie(user).CoreV1().ServiceAccounts(Namespace).CreateToken(r.t.Context(), pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	r.must(err)
	return answer.Status.Token
}

// write writes a file of the container's and returns where it is.
func (r *rig) write(path string, content []byte) string {
	r.t.Helper()
	path = filepath.Join(r.root, path)
	r.must(os.MkdirAll(filepath.Dir(path), 0o700))
	r.must(os.WriteFile(path, content, 0o600))
	return path
}

// inside moves the container's paths below the rig's root.
func (r *rig) inside(text string) string {
	for _, dir := range []string{"/etc/config", "/etc/lanyard", "/var/run/nvsentinel", "/var/run/secrets", "/var/lib/lanyard"} {
		text = strings.ReplaceAll(text, dir, r.root+dir)
	}
	return text
}

// kubeconfig is what stands for the in-cluster configuration.
func (r *rig) kubeconfig(token string) string {
	r.t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: r.cp.URL(), CertificateAuthorityData: r.cp.CA()}
	config.AuthInfos["c"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "c"}
	config.CurrentContext = "c"
	path := filepath.Join(r.root, "kubeconfig")
	r.must(clientcmd.WriteToFile(*config, path))
	return path
}

func TestTheProgramRunsAsTheChartStartsIt(t *testing.T) {
	t.Parallel()
	const publishers = "publishers={gpu/monitor}"
	r := newRig(t, "--set", publishers)
	tree, err := program.Tree()
	r.must(err)
	binary, err := program.Build(t.Context(), os.Stderr, program.Source{Name: "connector", Dir: tree, Package: "./cmd/connector"})
	r.must(err)
	daemonSet := find(r.objects, "DaemonSet", wire.AccountSocketConnector)
	_, spec, _ := podOf(t, daemonSet)
	pod, err := r.admin.CoreV1().Pods(Namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "connector"},
		Spec:       corev1.PodSpec{NodeName: "node-a", ServiceAccountName: spec.ServiceAccountName, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	r.must(err)
	api := r.token(pod)
	r.write("/var/run/secrets/kubernetes.io/serviceaccount/token", []byte(api))
	r.write("/var/run/secrets/lanyard/connector/token", []byte(r.token(pod, wire.DefaultPublisherAudience)))
	r.write("/etc/config/config.json", fileOf(t, "default", "lanyard-connector", "config.json"))
	r.write("/etc/lanyard/settings/settings.yaml", []byte(r.inside(string(fileOf(t, "default", "lanyard-connector-socket", "settings.yaml", "--set", publishers)))))
	r.must(os.MkdirAll(filepath.Join(r.root, "var/run/nvsentinel"), 0o755))
	r.must(os.MkdirAll(filepath.Join(r.root, "var/lib/lanyard/spool"), 0o755)) // as the kubelet makes it
	port, err := r.cp.Port()
	r.must(err)
	args := []string{"NODE_NAME=node-a", "POD_NAMESPACE=" + Namespace, binary}
	for _, a := range spec.Containers[0].Args {
		args = append(args, strings.Replace(r.inside(a), ":2112", fmt.Sprintf("127.0.0.1:%d", port), 1))
	}
	p, err := r.cp.StartProcess("connector", "/usr/bin/env", append(args, "--kubeconfig="+r.kubeconfig(api))...)
	r.must(err)
	log := func() string {
		raw, _ := os.ReadFile(p.Log())
		return string(raw)
	}
	for what, done := range map[string]func(context.Context) bool{
		"ready": func(ctx context.Context) bool {
			return reads(ctx, fmt.Sprintf("http://127.0.0.1:%d/readyz", port))
		},
		"the fence stands": func(context.Context) bool {
			return strings.Contains(log(), "the policy for socket connectors is in force")
		},
		"the socket is there": func(context.Context) bool {
			_, err := os.Stat(filepath.Join(r.root, "var/run/nvsentinel/nvsentinel.sock"))
			return err == nil
		},
	} {
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
			return done(ctx), nil
		})
		if err != nil {
			t.Errorf("not so: %s", what)
		}
	}
	r.report(filepath.Join(r.root, "var/run/nvsentinel/nvsentinel.sock"))
	r.must(p.Stop(context.Background(), 25*time.Second))
	if t.Log(log()); strings.Contains(log(), "forbidden") {
		t.Error("the program asks for more than the chart lets it have")
	}
}

// report says by the socket that a GPU of the node is broken, without a token and without the node's name, and waits until the
// node shows it.
func (r *rig) report(socket string) {
	r.t.Helper()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	r.must(err)
	defer conn.Close()
	event := &healtheventv1.HealthEvent{Version: 1, Agent: "monitor", CheckName: "GpuXid", IsFatal: true, Message: "fell off the bus"}
	_, err = healtheventv1.NewPlatformConnectorClient(conn).HealthEventOccurredV1(r.t.Context(), &healtheventv1.HealthEvents{Version: 1, Events: []*healtheventv1.HealthEvent{event}})
	r.must(err)
	err = wait.PollUntilContextTimeout(r.t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		node, err := r.admin.CoreV1().Nodes().Get(ctx, "node-a", metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == "GpuXid" && c.Reason == "GpuXid"+wire.ReasonUnhealthySuffix
		}), err
	})
	if err != nil {
		r.t.Error("the node does not show the condition")
	}
}

// reads says whether a page answers that all is well.
func reads(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
}
