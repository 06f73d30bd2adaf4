//go:build unix

package chart

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/lanyard-k8s/lanyard/connector/sink/store"
)

// TestTheDeploymentOpensItsStore opens the store as the program does, in a volume as the kubelet makes an emptyDir: open to everybody,
// and not the program's to close. A Deployment whose store lay directly in it never started.
func TestTheDeploymentOpensItsStore(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"in an emptyDir":      {"--set=connector.deployment.enabled=true"},
		"in a claim's volume": {"--set=connector.deployment.enabled=true,connector.deployment.replicas=1,connector.deployment.sinks.store.persistence.enabled=true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var settings struct {
				Sinks struct{ Store struct{ Path string } }
			}
			if err := yaml.Unmarshal(fileOf(t, "default", "lanyard-connector-deployment", "settings.yaml", args...), &settings); err != nil {
				t.Fatal(err)
			}
			_, spec, _ := podOf(t, find(render(t, "default", args...), "Deployment", "lanyard-connector-deployment"))
			mounted := ""
			for _, m := range spec.Containers[0].VolumeMounts {
				if m.Name == "store" {
					mounted = m.MountPath
				}
			}
			below, found := strings.CutPrefix(settings.Sinks.Store.Path, mounted+"/")
			if mounted == "" || !found {
				t.Fatalf("the store's path %s is not in its volume, which is mounted at %q", settings.Sinks.Store.Path, mounted)
			}
			volume := t.TempDir()
			if err := os.Chmod(volume, 0o777|os.ModeSetgid); err != nil {
				t.Fatal(err)
			}
			s, err := store.OpenSQLite(context.Background(), filepath.Join(volume, below), store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
