//go:build unix

package cluster

import (
	"fmt"
	"strings"
)

// TokenIssuer is the issuer of the service account tokens, as it is in most clusters.
const TokenIssuer = "https://kubernetes.default.svc.cluster.local"

// placePort is the API server's port where it has an address of its own.
const placePort = 6443

// serviceRange is where the addresses of Services come from; nothing ever answers there.
const serviceRange = "10.96.0.0/16"

// idle are the controllers that wait for nodes, volumes or a cloud. The node controllers would do harm: a Node that a test
// has written sends no heartbeats, so they would taint it and evict its pods.
var idle = []string{
	"node-lifecycle-controller", "taint-eviction-controller", "device-taint-eviction-controller", "node-ipam-controller",
	"persistentvolume-attach-detach-controller",
	"persistentvolume-binder-controller", "persistentvolume-expander-controller", "ephemeral-volume-controller",
}

// arguments returns the flags that a component runs with.
func (cp *ControlPlane) arguments(c Component) []string {
	switch c {
	case Etcd:
		return cp.etcdArguments()
	case APIServer:
		args := cp.apiServerArguments()
		if cp.options.Place.hasNodes() {
			args = append(args, cp.apiServerNodeArguments()...)
		}
		return append(args, cp.options.APIServerArgs...)
	case Scheduler:
		return cp.schedulerArguments()
	default:
		return append(cp.controllerArguments(), cp.options.ControllerArgs...)
	}
}

func (cp *ControlPlane) etcdArguments() []string {
	client, peer := loopback("http", cp.ports.etcd), loopback("http", cp.ports.etcdPeer)
	return []string{
		"--data-dir=" + cp.Path("etcd"),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
		// The data need not survive a power cut.
		"--unsafe-no-fsync",
		"--log-level=warn",
	}
}

func (cp *ControlPlane) apiServerArguments() []string {
	pki := func(name string) string { return cp.Path("pki", name) }
	return []string{
		"--etcd-servers=" + loopback("http", cp.ports.etcd),
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", cp.ports.api),
		// Endpoints may not be loopback addresses, and nobody looks for the API server by its Service.
		"--endpoint-reconciler-type=none", "--advertise-address=127.0.0.1",
		"--allow-privileged=true",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--client-ca-file=" + pki("ca.crt"),
		"--tls-cert-file=" + pki("apiserver.crt"), "--tls-private-key-file=" + pki("apiserver.key"),
		"--requestheader-client-ca-file=" + pki("front-ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + pki("front-proxy.crt"), "--proxy-client-key-file=" + pki("front-proxy.key"),
		"--service-account-issuer=" + TokenIssuer,
		"--service-account-key-file=" + pki("tokens.pub"), "--service-account-signing-key-file=" + pki("tokens.key"),
		"--service-cluster-ip-range=" + serviceRange,
		"--audit-policy-file=" + cp.Path("audit-policy.yaml"), "--audit-log-path=" + cp.auditLog(), "--audit-log-mode=blocking",
		"--profiling=false",
	}
}

func (cp *ControlPlane) controllerArguments() []string {
	kubeconfig := cp.kubeconfigPath("system:kube-controller-manager")
	pki := func(name string) string { return cp.Path("pki", name) }
	args := []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", cp.ports.controllers),
		"--tls-cert-file=" + pki("apiserver.crt"), "--tls-private-key-file=" + pki("apiserver.key"),
		"--client-ca-file=" + pki("ca.crt"), "--requestheader-client-ca-file=" + pki("front-ca.crt"),
		"--root-ca-file=" + pki("ca.crt"), "--service-account-private-key-file=" + pki("tokens.key"),
		"--cluster-signing-cert-file=" + pki("ca.crt"), "--cluster-signing-key-file=" + pki("ca.key"),
		// Each controller acts under its own name, which is what policies about controllers look at.
		"--use-service-account-credentials=true",
		"--leader-elect=false", "--allocate-node-cidrs=false",
		// A fresh control plane has little else to do, and tests wait for what controllers do.
		"--kube-api-qps=500", "--kube-api-burst=1000", "--concurrent-namespace-syncs=20",
		"--controller-start-interval=0s",
		"--profiling=false",
	}
	if cp.options.Place.hasNodes() {
		return append(args, "--controllers=*", "--node-monitor-grace-period="+nodeMonitorGrace)
	}
	return append(args, "--controllers=*,-"+strings.Join(idle, ",-"), "--service-cluster-ip-range="+serviceRange)
}

// loopback is a URL of this machine.
func loopback(scheme string, port int) string { return fmt.Sprintf("%s://127.0.0.1:%d", scheme, port) }
