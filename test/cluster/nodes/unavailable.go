//go:build unix

package nodes

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/cgroup"
	"github.com/lanyard-k8s/lanyard/test/cluster/rundir"
)

// cniFolder is where Debian has the plugins of the pod network.
const cniFolder = "/usr/lib/cni"

// neededPrograms are what a cluster runs that is not built here, with the package of Debian's that each is in.
func neededPrograms() map[string]string {
	return map[string]string{
		"containerd": "containerd", "ctr": "containerd", "containerd-shim-runc-v2": "containerd", "runc": "runc",
		"nft": "nftables", "iptables": "iptables", "ipset": "ipset", "conntrack": "conntrack",
		"ip": "iproute2", "nsenter": "util-linux", "unshare": "util-linux", "mount": "mount",
	}
}

// neededPlugins are the plugins of the pod network.
func neededPlugins() []string { return []string{"ptp", "host-local", "portmap", "loopback"} }

// Unavailable returns why this machine cannot run a cluster with nodes, in one sentence, or nothing if it can. It finds out
// by trying on a small scale, once.
func Unavailable() string { return unavailable() }

var unavailable = sync.OnceValue(func() string {
	if runtime.GOOS != "linux" {
		return "a cluster with real nodes runs on Linux only, and this is " + runtime.GOOS
	}
	if os.Getuid() != 0 {
		return "a cluster with real nodes needs root, for namespaces, mounts and cgroups"
	}
	for _, check := range []func() string{missingPackages, refusedNamespaces, refusedNetwork, refusedOverlay, refusedCgroups} {
		if why := check(); why != "" {
			return why
		}
	}
	return ""
})

// missingPackages looks for programs.
func missingPackages() string {
	missing := map[string]bool{}
	for name, pkg := range neededPrograms() {
		if _, err := exec.LookPath(name); err != nil {
			missing[pkg] = true
		}
	}
	for _, name := range neededPlugins() {
		if _, err := os.Stat(filepath.Join(cniFolder, name)); err != nil {
			missing["containernetworking-plugins"] = true
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return "a cluster with real nodes needs these packages of Debian's: " + strings.Join(slices.Sorted(maps.Keys(missing)), " ") + "; `make packages` installs them"
}

// refusedNamespaces makes the namespaces that a node consists of.
func refusedNamespaces() string {
	return refused("namespaces for processes, mounts, names and networks",
		"unshare", "--fork", "--pid", "--mount", "--uts", "--ipc", "--net", "--mount-proc", "--", "mount", "-t", "tmpfs", "tmpfs", "/run")
}

// refusedNetwork makes, in a network namespace that is gone at once, what a node's network consists of.
func refusedNetwork() string {
	return refused("bridges, pairs of interfaces and packet filters", "unshare", "--net", "--", "sh", "-ec", `
ip link add bridge type bridge
ip link add one type veth peer name other
nft add table ip trial
nft add chain ip trial nat '{ type nat hook postrouting priority 100; }'
nft add rule ip trial nat masquerade
iptables --wait -t filter -N trial
ipset create trial hash:ip`)
}

// refusedOverlay mounts a layered file system where the nodes' disks will lie, as containerd does.
func refusedOverlay() string {
	base := rundir.Base()
	if err := os.MkdirAll(base, 0o700); err != nil {
		return fmt.Sprintf("a cluster with real nodes needs a folder for its disks: %v", err)
	}
	dir, err := os.MkdirTemp(base, "overlay-")
	if err != nil {
		return fmt.Sprintf("a cluster with real nodes needs a folder for its disks: %v", err)
	}
	defer os.RemoveAll(dir)
	return refused("overlay file systems in "+base+" (TMPDIR names another place)", "unshare", "--mount", "--", "sh", "-ec", `
cd "$1"
mkdir lower upper work merged
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged
touch merged/file`, "sh", dir)
}

// refusedCgroups makes a cgroup in each hierarchy.
func refusedCgroups() string {
	name := fmt.Sprintf("lanyard-trial-%d", os.Getpid())
	err := cgroup.Create(name)
	removing := cgroup.Remove(name)
	if err == nil {
		err = removing
	}
	if err != nil {
		return "a cluster with real nodes needs cgroups that it may write: " + err.Error()
	}
	return ""
}

// refused tries a command and says that what it tries is not allowed here.
func refused(what string, command ...string) string {
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err == nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return fmt.Sprintf("a cluster with real nodes needs %s, which this machine refuses: %s (%v)", what, lines[len(lines)-1], err)
}
