//go:build unix

package cluster

import (
	"net"
	"slices"
)

// Place says where a control plane runs that has real nodes: in a network namespace which its nodes and this machine reach.
// The zero value is this machine's loopback address, with no nodes.
type Place struct {
	// Enter is the command that enters the namespace; its words go before the path and the arguments of each component.
	Enter []string
	// Address is the API server's in the namespace, where nodes, pods and this machine reach it.
	Address net.IP
	// Services is the range that the addresses of Services come from, with ServiceAddress, the first of them, the API
	// server's own.
	Services       string
	ServiceAddress net.IP
	// Scheduler is the path of kube-scheduler's program.
	Scheduler string
}

// hasNodes says whether there are nodes, or are going to be.
func (p Place) hasNodes() bool { return p.Address != nil }

// command returns what starts a program at the place.
func (p Place) command(path string, args []string) (string, []string) {
	if len(p.Enter) == 0 {
		return path, args
	}
	return p.Enter[0], slices.Concat(p.Enter[1:], []string{path}, args)
}

// KubeletClient is the user that the API server is to kubelets; it needs a role there.
const KubeletClient = "kube-apiserver-kubelet-client"

// nodeMonitorGrace is how long a node may be silent before it counts as lost, in kube-controller-manager's words. It is
// less than Kubernetes's default, so that tests of power cuts are shorter, and four heartbeats of a node.
const nodeMonitorGrace = "20s"

// apiServerNodeArguments are the flags of an API server with nodes that differ from those of one without.
func (cp *ControlPlane) apiServerNodeArguments() []string {
	pki := func(name string) string { return cp.Path("pki", name) }
	return []string{
		"--bind-address=0.0.0.0", "--advertise-address=" + cp.options.Place.Address.String(), "--endpoint-reconciler-type=lease",
		"--service-cluster-ip-range=" + cp.options.Place.Services,
		"--kubelet-certificate-authority=" + pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate=" + pki("kubelet-client.crt"), "--kubelet-client-key=" + pki("kubelet-client.key"),
		// No kube-proxy runs beside the API server: it looks up the endpoints of a webhook's Service itself.
		"--enable-aggregator-routing=true",
	}
}

// schedulerArguments are kube-scheduler's flags.
func (cp *ControlPlane) schedulerArguments() []string {
	kubeconfig := cp.kubeconfigPath(schedulerUser)
	return []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", "--leader-elect=false", "--profiling=false",
	}
}

// schedulerUser is the user that kube-scheduler acts as.
const schedulerUser = "system:kube-scheduler"
