//go:build unix

package nodes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/test/cluster/filelock"
	"github.com/lanyard-k8s/lanyard/test/cluster/nodes"
	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/limits"
	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/slot"
)

// machineLimits are what the machine's limits are by themselves, without any cluster: those that are noted as raised, as the note
// says, and the others as they are. held says whether some cluster, of whatever process, is there at this moment.
func machineLimits(t *testing.T) (own, now map[string]int, held bool) {
	t.Helper()
	own, now = map[string]int{}, map[string]int{}
	if err := os.MkdirAll(slot.Base, 0o700); err != nil {
		t.Fatal(err)
	}
	// While this lock is held nobody takes or gives back a slot, so what is read belongs together.
	err := filelock.Holding(filepath.Join(slot.Base, "lock"), func() error {
		for _, name := range []string{"fs/inotify/max_user_instances", "fs/inotify/max_user_watches"} {
			content, err := os.ReadFile(filepath.Join(limits.Sysctls, name))
			if err != nil {
				return err
			}
			if now[name], err = strconv.Atoi(strings.TrimSpace(string(content))); err != nil {
				return err
			}
			own[name] = now[name]
		}
		noted, err := os.ReadFile(filepath.Join(slot.Base, "limits"))
		if err == nil {
			err = json.Unmarshal(noted, &own)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for number := range slot.Count {
			f, err := filelock.Try(filepath.Join(slot.Base, fmt.Sprintf("slot-%d.lock", number)))
			if errors.Is(err, syscall.EWOULDBLOCK) {
				held = true
				continue
			}
			if err != nil {
				return err
			}
			_ = f.Close()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return own, now, held
}

// limitsAreRestored wants the machine's limits to be what they were if no cluster is left, and what they were to be noted as long as
// clusters of other tests are there: whichever of them ends last sets them again.
func limitsAreRestored(t *testing.T, before map[string]int) {
	t.Helper()
	if err := nodes.Sweep(); err != nil { // another test's cluster may have been killed
		t.Fatal(err)
	}
	own, now, held := machineLimits(t)
	if diff := cmp.Diff(before, own); diff != "" {
		t.Errorf("what the machine's limits will be set to again (-before +noted):\n%s", diff)
	}
	if !held {
		if diff := cmp.Diff(before, now); diff != "" {
			t.Errorf("the machine's limits when the last cluster has gone (-before +now):\n%s", diff)
		}
		return
	}
	t.Log("another test's cluster is up, so the machine's limits are raised still; what they will be set to again is what they were")
}
