//go:build unix

package cluster

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/lanyard-k8s/lanyard/test/cluster/pki"
)

// Admin is the user that Config acts as, with its group, which may do anything.
const (
	Admin      = "admin"
	adminGroup = "system:masters"
)

// clientQPS and clientBurst keep clients from waiting for themselves: the limits that client-go comes with are for good
// neighbours in a busy cluster.
const (
	clientQPS   = 500
	clientBurst = 1000
)

// URL is where the API server listens.
func (cp *ControlPlane) URL() string {
	if place := cp.options.Place; place.hasNodes() {
		return "https://" + net.JoinHostPort(place.Address.String(), strconv.Itoa(cp.ports.api))
	}
	return loopback("https", cp.ports.api)
}

// CA returns the certificate, in PEM, that the API server's own is signed by.
func (cp *ControlPlane) CA() []byte { return cp.secrets.clients.Cert }

// Version is the version of Kubernetes, "v1.2.3".
func (cp *ControlPlane) Version() string { return cp.programs.version }

// Kubectl returns the path of kubectl.
func (cp *ControlPlane) Kubectl() string { return cp.programs.path("kubectl") }

// Config returns what a client needs to act as an administrator of the cluster.
func (cp *ControlPlane) Config() (*rest.Config, error) { return cp.ConfigFor(Admin, adminGroup) }

// ConfigFor returns what a client needs to act as the user in these groups, by a client certificate of the user's own. Any
// name will do, those of nodes, controllers and service accounts included; what it may do is up to RBAC. Warnings are dropped
// unless the caller sets another WarningHandler.
func (cp *ControlPlane) ConfigFor(user string, groups ...string) (*rest.Config, error) {
	pair, err := cp.secrets.clients.Issue(pki.Request{User: user, Groups: groups})
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            cp.URL(),
		TLSClientConfig: rest.TLSClientConfig{CAData: cp.CA(), CertData: pair.Cert, KeyData: pair.Key},
		QPS:             clientQPS,
		Burst:           clientBurst,
		WarningHandler:  rest.NoWarnings{},
	}, nil
}

// ConfigForToken returns what a client needs to act by a bearer token.
func (cp *ControlPlane) ConfigForToken(token string) *rest.Config {
	return &rest.Config{
		Host:            cp.URL(),
		TLSClientConfig: rest.TLSClientConfig{CAData: cp.CA()},
		BearerToken:     token,
		QPS:             clientQPS,
		Burst:           clientBurst,
		WarningHandler:  rest.NoWarnings{},
	}
}

// Kubeconfig writes a kubeconfig for the user in these groups and returns its path. Admin needs no groups to be an
// administrator.
func (cp *ControlPlane) Kubeconfig(user string, groups ...string) (string, error) {
	if user == Admin && len(groups) == 0 {
		groups = []string{adminGroup}
	}
	pair, err := cp.secrets.clients.Issue(pki.Request{User: user, Groups: groups})
	if err != nil {
		return "", err
	}
	return cp.writeKubeconfig(user, cp.kubeconfigPath(user, groups...), &clientcmdapi.AuthInfo{ClientCertificateData: pair.Cert, ClientKeyData: pair.Key})
}

// KubeconfigForTokenFile writes a kubeconfig of this name whose user presents the token in a file, which is read again when
// it changes, and returns its path.
func (cp *ControlPlane) KubeconfigForTokenFile(name, file string) (string, error) {
	return cp.writeKubeconfig(name, cp.Path("kubeconfig", url.PathEscape(name)+"-token.yaml"), &clientcmdapi.AuthInfo{TokenFile: file})
}

func (cp *ControlPlane) writeKubeconfig(user, path string, auth *clientcmdapi.AuthInfo) (string, error) {
	const name = "lanyard"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: cp.URL(), CertificateAuthorityData: cp.CA()}
	config.AuthInfos[user] = auth
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("writing the kubeconfig of %q: %w", user, err)
	}
	return path, nil
}

// runKubectl runs kubectl as an administrator and returns what it has printed.
func (cp *ControlPlane) runKubectl(ctx context.Context, args ...string) (string, error) {
	kubeconfig, err := cp.Kubeconfig(Admin)
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, cp.Kubectl(), append([]string{"--kubeconfig=" + kubeconfig}, args...)...).CombinedOutput()
	return string(out), err
}

// kubeconfigPath is where the kubeconfig of a user goes; the groups are in its name by their hash.
func (cp *ControlPlane) kubeconfigPath(user string, groups ...string) string {
	name := url.PathEscape(user)
	if len(groups) > 0 && user != Admin {
		name += fmt.Sprintf("-%x", sha256.Sum256([]byte(strings.Join(groups, "\n"))))[:9]
	}
	return cp.Path("kubeconfig", name+".yaml")
}
