//go:build unix

package nodes

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/boot"
	"github.com/lanyard-k8s/lanyard/test/cluster/pki"
)

// Where things lie on a node's disk.
const (
	programFolder = "/opt/lanyard/bin"
	configFolder  = "/etc/kubernetes"
)

// install writes everything to the node's disk that it boots from.
func (n *node) install() error {
	for _, dir := range []string{"etc/kubernetes", "etc/containerd", "etc/cni/net.d", "var/log/pods", "var/log/containers", "var/lib/kubelet"} {
		if err := os.MkdirAll(n.root(dir), 0o755); err != nil {
			return fmt.Errorf("making the disk of %s: %w", n.name, err)
		}
	}
	certificates, err := n.writeIdentity()
	if err != nil {
		return fmt.Errorf("making the certificates of %s: %w", n.name, err)
	}
	machineID := make([]byte, 16)
	_, _ = rand.Read(machineID) // it never fails
	files := map[string]string{
		"etc/hostname":    n.name + "\n",
		"etc/machine-id":  hex.EncodeToString(machineID) + "\n",
		"etc/resolv.conf": "",
		"etc/hosts":       "127.0.0.1 localhost\n" + n.address() + " " + n.name + "\n",
		"etc/passwd":      "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
		"etc/group":       "root:x:0:\nnogroup:x:65534:\n",
		"etc/os-release":  "NAME=\"Lanyard test node\"\nID=lanyard-test\nPRETTY_NAME=\"Lanyard test node\"\n",

		"etc/containerd/config.toml":     n.containerdConfig(),
		"etc/cni/net.d/10-pods.conflist": n.podNetwork(),
		"etc/kubernetes/kubelet.yaml":    n.kubeletConfig(),
	}
	errs := []error{certificates}
	for path, content := range files {
		errs = append(errs, os.WriteFile(n.root(path), []byte(content), 0o644))
	}
	errs = append(errs, n.spec().Write(n.c.cp.Path(n.name+".json")))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("writing the disk of %s: %w", n.name, err)
	}
	return nil
}

// writeIdentity writes what the node's daemons identify themselves by. The second error is that of writing.
func (n *node) writeIdentity() (writing, err error) {
	serving, err := n.c.cp.Issue(pki.Request{User: n.name, Names: []string{n.name}, Addresses: []net.IP{net.ParseIP(n.address())}})
	if err != nil {
		return nil, err
	}
	users := map[string][]string{
		kubelet:   {"system:node:" + n.name, "system:nodes"},
		kubeProxy: {"system:kube-proxy"},
		router:    {routerUser},
	}
	errs := []error{
		serving.Write(n.root("etc/kubernetes/kubelet")),
		os.WriteFile(n.root("etc/kubernetes/ca.crt"), n.c.cp.CA(), 0o644),
	}
	for daemon, user := range users {
		path, err := n.c.cp.Kubeconfig(user[0], user[1:]...)
		if err != nil {
			return nil, err
		}
		content, err := os.ReadFile(path)
		errs = append(errs, err, os.WriteFile(n.root("etc/kubernetes", daemon+".conf"), content, 0o600))
	}
	return errors.Join(errs...), nil
}

// spec describes the node to its process 1.
func (n *node) spec() boot.Spec {
	in := func(name string) string { return filepath.Join(configFolder, name) }
	program := func(name string) string { return filepath.Join(programFolder, name) }
	return boot.Spec{
		Hostname: n.name,
		Root:     n.root(),
		Mounts: []boot.Mount{
			{From: n.c.programs.path(kubelet), To: program(kubelet)},
			{From: n.c.programs.path(kubeProxy), To: program(kubeProxy)},
			{From: n.c.programs.router, To: program(router)},
		},
		Daemons: map[string]boot.Daemon{
			containerd: {Path: "/usr/bin/containerd"},
			kubelet: {Path: program(kubelet), Args: []string{
				"--config=" + in("kubelet.yaml"), "--kubeconfig=" + in("kubelet.conf"),
				"--hostname-override=" + n.name, "--node-ip=" + n.address(),
				"--node-labels=topology.kubernetes.io/zone=zone" + fmt.Sprint(n.n),
			}},
			kubeProxy: {Path: program(kubeProxy), Args: []string{
				"--kubeconfig=" + in(kubeProxy+".conf"), "--hostname-override=" + n.name, "--bind-address=" + n.address(),
				"--proxy-mode=nftables", "--cluster-cidr=" + n.c.plan.Pods().String(), "--nodeport-addresses=primary",
				// The limits of connection tracking are the machine's.
				"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s",
			}},
			router: {Path: program(router), Args: []string{
				"--run-firewall=true", "--run-router=false", "--run-service-proxy=false", "--run-loadbalancer=false",
				"--kubeconfig=" + in(router+".conf"), "--hostname-override=" + n.name,
				"--service-cluster-ip-range=" + n.c.plan.Services().String(), "--iptables-sync-period=10s", "--health-port=0",
			}},
		},
	}
}
