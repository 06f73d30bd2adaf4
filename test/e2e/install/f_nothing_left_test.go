//go:build unix

package install

import (
	"testing"

	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// TestUninstallEverything removes the release with its data: nothing is left. It comes last but for the profile of production.
func TestUninstallEverything(t *testing.T) {
	h := home.Enter(t)
	mustInstall(t, h, everything+"\n")
	if err := h.Upgrade(t.Context(), house.Chart(), everything, "--set=exchange.keepData=false"); err != nil {
		t.Fatal(err)
	}
	if err := h.Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	left(t, h, nil)
}
