//go:build unix

package program

import (
	"os"
	"path/filepath"
	"time"
)

// kept is for how long what nobody uses stays in the cache. Every change of the source makes new programs and images; without an
// end, some gigabytes of them would lie there after a day of work.
const kept = 3 * 24 * time.Hour

// Keep notes that an entry of the cache is in use, and removes those beside it that have not been for three days. A cache that cannot
// be tidied does no harm, and what could not be removed is tried again.
func Keep(path string) {
	now := time.Now()
	if err := os.Chtimes(path, now, now); err != nil {
		return
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > kept {
			_ = os.RemoveAll(filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
}
