//go:build unix

package install

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/test/cluster/program"
	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// examined has `lanyard doctor` examine the installation: nothing may fail.
func examined(t *testing.T, h *house.House) {
	t.Helper()
	tree, err := program.Tree()
	if err != nil {
		t.Fatal(err)
	}
	lanyard, err := program.Build(t.Context(), os.Stderr, program.Source{
		Name: "lanyard", Dir: tree, Package: "./cmd/lanyard", Static: true, Trimpath: true, LinkFlags: "-s -w -buildid=",
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), lanyard, "doctor", "--kubeconfig="+h.Cluster.Kubeconfig()).CombinedOutput()
	said := strings.TrimSpace(string(out))
	if last := said[strings.LastIndexByte(said, '\n')+1:]; err != nil || !strings.HasPrefix(last, "0 failed") {
		t.Errorf("doctor found faults in a fresh installation (%v):\n%s", err, said)
	}
}
