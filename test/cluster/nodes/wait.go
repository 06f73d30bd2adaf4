//go:build unix

package nodes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// pollInterval is how often something is looked at that cannot be watched.
const pollInterval = 50 * time.Millisecond

// poll asks until the answer is yes, an error, or ctx is done.
func poll(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tail returns the end of a file, for a message to a person.
func tail(path string) string {
	const most = 3000
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Sprintf("(reading %s: %v)", filepath.Base(path), err)
	}
	return string(content[max(0, len(content)-most):])
}
