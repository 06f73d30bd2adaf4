//go:build unix

package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/lanyard-k8s/lanyard/test/cluster/pki"
)

// secrets are the authorities that the control plane trusts.
type secrets struct {
	// clients signs the API server's own certificate, everybody's client certificates and signing requests.
	clients *pki.Authority
	// front signs for aggregated API servers. There are none, but the API server publishes it.
	front *pki.Authority
}

// ports are the components' ports on the loopback address.
type ports struct {
	etcd, etcdPeer, api, controllers int
}

// prepare takes ports and writes every file that the components read.
func (cp *ControlPlane) prepare() error {
	for _, port := range []*int{&cp.ports.etcd, &cp.ports.etcdPeer, &cp.ports.api, &cp.ports.controllers} {
		var err error
		if *port, err = cp.dir.Port(); err != nil {
			return err
		}
	}
	if cp.options.Place.hasNodes() {
		cp.ports.api = placePort
	}
	if err := os.Mkdir(cp.Path("pki"), 0o700); err != nil {
		return fmt.Errorf("making the folder for certificates: %w", err)
	}
	var err error
	if cp.secrets.clients, err = pki.NewAuthority("kubernetes"); err != nil {
		return err
	}
	if cp.secrets.front, err = pki.NewAuthority("front-proxy"); err != nil {
		return err
	}
	if err := cp.writeServing(); err != nil {
		return err
	}
	if err := os.WriteFile(cp.Path("audit-policy.yaml"), []byte(auditPolicy), 0o600); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	if _, err := cp.Kubeconfig("system:kube-controller-manager"); err != nil {
		return err
	}
	_, err = cp.Kubeconfig(schedulerUser)
	return err
}

// Issue makes a key and a certificate that the control plane trusts, such as a kubelet's for serving.
func (cp *ControlPlane) Issue(r pki.Request) (pki.Pair, error) { return cp.secrets.clients.Issue(r) }

// writeServing writes the authorities, the API server's certificates and the key for tokens.
func (cp *ControlPlane) writeServing() error {
	addresses := []net.IP{net.IPv4(127, 0, 0, 1)}
	if place := cp.options.Place; place.hasNodes() {
		addresses = append(addresses, place.Address, place.ServiceAddress)
	}
	serving, err := cp.secrets.clients.Issue(pki.Request{
		User:      "kube-apiserver",
		Names:     []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		Addresses: addresses,
	})
	if err != nil {
		return err
	}
	kubelets, err := cp.secrets.clients.Issue(pki.Request{User: KubeletClient})
	if err != nil {
		return err
	}
	proxy, err := cp.secrets.front.Issue(pki.Request{User: "front-proxy-client"})
	if err != nil {
		return err
	}
	private, public, err := pki.TokenKey()
	if err != nil {
		return err
	}
	return errors.Join(
		cp.secrets.clients.Write(cp.Path("pki", "ca")),
		cp.secrets.front.Write(cp.Path("pki", "front-ca")),
		serving.Write(cp.Path("pki", "apiserver")),
		proxy.Write(cp.Path("pki", "front-proxy")),
		kubelets.Write(cp.Path("pki", "kubelet-client")),
		os.WriteFile(cp.Path("pki", "tokens.key"), private, 0o600),
		os.WriteFile(cp.Path("pki", "tokens.pub"), public, 0o600),
	)
}
