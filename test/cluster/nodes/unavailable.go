//go:build unix

package nodes

// cniFolder is where Debian has the plugins of the pod network.
const cniFolder = "/usr/lib/cni"

// Unavailable says.
func Unavailable() string { return "" }
