//go:build unix

package nodes

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
)

// sysResource is the number of CAP_SYS_RESOURCE.
const sysResource = 24

// effectiveLine is where the kernel says which of root's capabilities a process really has: in containers, and in other places
// that are called root and are not, some are missing.
var effectiveLine = regexp.MustCompile(`(?m)^CapEff:\s*([0-9a-f]+)$`)

// capable says whether this process has a capability.
func capable(number uint) bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	found := effectiveLine.FindSubmatch(status)
	if found == nil {
		return false
	}
	set, err := strconv.ParseUint(string(found[1]), 16, 64)
	return err == nil && set&(1<<number) != 0
}

// containerdConfig is containerd's. Without CAP_SYS_RESOURCE, runc may not lower the score by which the kernel chooses whom to
// kill, as the sandboxes of pods ask for, and would fail without saying so.
func (n *node) containerdConfig() string {
	return fmt.Sprintf(`version = 2
disabled_plugins = ["io.containerd.internal.v1.opt"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  disable_tcp_service = true
  disable_apparmor = true
  restrict_oom_score_adj = %t
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = "/etc/cni/net.d"
`, n.c.programs.pause.Ref(), !capable(sysResource), cniFolder)
}

// podNetwork gives each pod a pair of interfaces of its own and routes between them, rather than a bridge, whose traffic
// would go past kube-proxy's rules. Pods keep their addresses on the way, to other nodes and to this machine.
func (n *node) podNetwork() string {
	return fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "pods", "plugins": [
 {"type": "ptp", "ipMasq": false, "mtu": 1500, "ipam": {"type": "host-local",
  "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}},
 {"type": "portmap", "capabilities": {"portMappings": true}}]}
`, n.c.plan.NodePods(n.n))
}

// kubeletConfig is the kubelet's. A nearly full disk evicts nobody: it is this machine's, and its owner's business. Heartbeats
// come often, so that a lost node is soon noticed.
func (n *node) kubeletConfig() string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /%s
enforceNodeAllocatable: [pods]
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
clusterDomain: cluster.local
clusterDNS: [%q]
resolvConf: ""
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: /etc/kubernetes/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: /etc/kubernetes/kubelet.crt
tlsPrivateKeyFile: /etc/kubernetes/kubelet.key
evictionHard: {memory.available: 100Mi, nodefs.available: "0%%", nodefs.inodesFree: "0%%", imagefs.available: "0%%", imagefs.inodesFree: "0%%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
failSwapOn: false
makeIPTablesUtilChains: false
nodeStatusUpdateFrequency: 5s
syncFrequency: 10s
maxPods: 60
`, n.c.plan.Node(n.n), n.c.plan.DNSAddress().String())
}
