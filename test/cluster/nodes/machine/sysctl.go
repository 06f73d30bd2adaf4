//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// networkSysctls make a router of the node's own network namespace.
func networkSysctls() map[string]string {
	return map[string]string{
		"net/ipv4/ip_forward":             "1",
		"net/ipv4/conf/all/rp_filter":     "0",
		"net/ipv4/conf/default/rp_filter": "0",
		"net/ipv4/conf/eth0/rp_filter":    "0",
	}
}

// machineSysctls are what a kubelet wants of the machine as a whole, and sets if it finds anything else. They are this
// machine's, which a node has no business with: the node sees files of these contents in their place.
func machineSysctls() map[string]string {
	return map[string]string{
		"vm/overcommit_memory":      "1",
		"vm/panic_on_oom":           "0",
		"kernel/panic":              "10",
		"kernel/panic_on_oops":      "1",
		"kernel/keys/root_maxkeys":  "1000000",
		"kernel/keys/root_maxbytes": "25000000",
	}
}

// setSysctls sets the former and hides the latter.
func setSysctls() error {
	for name, value := range networkSysctls() {
		if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0o644); err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	if err := os.MkdirAll("/run/sysctl", 0o755); err != nil {
		return err
	}
	for name, value := range machineSysctls() {
		real, ours := filepath.Join("/proc/sys", name), filepath.Join("/run/sysctl", strings.ReplaceAll(name, "/", "."))
		if _, err := os.Stat(real); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := os.WriteFile(ours, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := syscall.Mount(ours, real, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("hiding %s: %w", name, err)
		}
	}
	return nil
}
