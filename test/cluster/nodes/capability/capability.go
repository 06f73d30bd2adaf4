// Package capability says which of root's capabilities a process really has: in containers, and in other places that are
// called root and are not, some are missing.
package capability

import (
	"os"
	"regexp"
	"strconv"
)

// Capability is one of Linux's capabilities by its number.
type Capability uint

// The capabilities that are asked for.
const (
	NetAdmin    Capability = 12
	SysChroot   Capability = 18
	SysPtrace   Capability = 19
	SysAdmin    Capability = 21
	SysResource Capability = 24
	Mknod       Capability = 27
)

var effectiveLine = regexp.MustCompile(`(?m)^CapEff:\s*([0-9a-f]+)$`)

// Effective says whether this process has a capability.
func Effective(c Capability) bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	found := effectiveLine.FindSubmatch(status)
	if found == nil {
		return false
	}
	set, err := strconv.ParseUint(string(found[1]), 16, 64)
	return err == nil && set&(1<<c) != 0
}
