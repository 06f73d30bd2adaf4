//go:build linux

package machine

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestItNeedsNoCapabilities: started as docs/examples/docker has it, as root without any capability, with the submitters' group and a
// strict umask, it makes its directories and runs jobs, and users read the CA certificate.
func TestItNeedsNoCapabilities(t *testing.T) {
	t.Parallel()
	if shared.absent != "" {
		t.Skip("SKIPPED: " + shared.absent)
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("SKIPPED: setpriv is not installed (Debian: util-linux)")
	}
	h := shared.prepare(t, shared.engine, "")
	h.through = []string{
		"/bin/sh", "-c", `umask 077 && exec "$@"`, "sh",
		setpriv, "--regid", fmt.Sprint(group), "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--",
	}
	h.start()
	h.ready()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.cmd.Process.Pid))
	if err != nil || !strings.Contains(string(status), "CapEff:\t0000000000000000") || !strings.Contains(string(status), "CapBnd:\t0000000000000000") {
		t.Fatalf("it has capabilities: %v %s", err, status)
	}
	if code, out := h.as(alice, "run", "--image", plainImage, "--", "exchange", "docker"); code != 0 || claims(t, out)["sub"] != "alice@example.com" {
		t.Errorf("a job: %d %s", code, out)
	}
	cat := exec.CommandContext(t.Context(), "/bin/cat", h.dir+"/run/ca.crt")
	cat.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: bob, Gid: group}}
	if out, err := cat.CombinedOutput(); err != nil || !strings.Contains(string(out), "BEGIN CERTIFICATE") {
		t.Errorf("bob reads the CA certificate: %v %s", err, out)
	}
	stranger := exec.CommandContext(t.Context(), "/bin/ls", h.dir+"/run")
	stranger.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: carol, Gid: carol}}
	if out, err := stranger.CombinedOutput(); err == nil || !strings.Contains(string(out), "Permission denied") {
		t.Errorf("a stranger looks into the socket's directory: %v, %s", err, out)
	}
}
