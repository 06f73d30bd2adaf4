//go:build linux

package docker

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// The capabilities that the Engine's home is made with, by their numbers.
const (
	capNetAdmin = 12
	capSysAdmin = 21
)

// Unavailable says in a sentence why no Engine can be started here, or nothing.
func Unavailable() string {
	if os.Geteuid() != 0 {
		return "no Docker Engine to test on: starting one takes root"
	}
	if !capable(capNetAdmin) || !capable(capSysAdmin) {
		return "no Docker Engine to test on: this root may not make namespaces and mounts (CAP_SYS_ADMIN, CAP_NET_ADMIN)"
	}
	for _, name := range programs() {
		if _, err := locate(name); err != nil {
			return "no Docker Engine to test on: " + name + " is not installed (Debian: docker.io, iptables, iproute2, util-linux)"
		}
	}
	return ""
}

// programs are what the Engine and its home consist of.
func programs() []string {
	return []string{"dockerd", "containerd", "runc", "iptables", "ip", "mount", "nsenter"}
}

// locate finds a program, also where only root's PATH looks.
func locate(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

// capable says whether the process has a capability.
func capable(number int) bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if digits, ok := strings.CutPrefix(line, "CapEff:"); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(digits), 16, 64)
			return err == nil && set&(1<<number) != 0
		}
	}
	return false
}
