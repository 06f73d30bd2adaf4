//go:build unix

package chart

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

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
		case "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Secret", "FlowSchema", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
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

// write writes a file of the container's.
func (r *rig) write(path string, content []byte) {
	r.t.Helper()
	path = filepath.Join(r.root, path)
	r.must(os.MkdirAll(filepath.Dir(path), 0o700))
	r.must(os.WriteFile(path, content, 0o600))
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
