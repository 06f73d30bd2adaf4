//go:build unix

package limits_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/limits"
)

// settings writes a machine's settings and returns their folder.
func settings(t *testing.T, instances, watches string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "fs/inotify"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"max_user_instances": instances, "max_user_watches": watches} {
		if err := os.WriteFile(filepath.Join(dir, "fs/inotify", name), []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func values(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	for _, name := range []string{"max_user_instances", "max_user_watches"} {
		content, err := os.ReadFile(filepath.Join(dir, "fs/inotify", name))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, strings.TrimSpace(string(content)))
	}
	return found
}

func TestLimitsAreRaisedAndRestored(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, raised []string
	}{
		"low ones are raised":         {[]string{"128", "8192"}, []string{"4096", "524288"}},
		"a high one stays as it is":   {[]string{"128", "1000000"}, []string{"4096", "1000000"}},
		"two high ones stay, as well": {[]string{"8192", "1000000"}, []string{"8192", "1000000"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, note := settings(t, tc.before[0], tc.before[1]), filepath.Join(t.TempDir(), "note")
			for range 2 { // the second call must not take the raised values for the machine's own
				if err := limits.Raise(dir, note); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tc.raised, values(t, dir)); diff != "" {
				t.Errorf("raised (-want +got):\n%s", diff)
			}
			for range 2 {
				if err := limits.Restore(dir, note); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tc.before, values(t, dir)); diff != "" {
				t.Errorf("restored (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAMachineWithoutTheLimitsIsLeftAlone(t *testing.T) {
	t.Parallel()
	note := filepath.Join(t.TempDir(), "note")
	if err := limits.Raise(t.TempDir(), note); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(note); err == nil {
		t.Error("something was noted")
	}
}
