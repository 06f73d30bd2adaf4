//go:build unix

// Package program builds the programs that a test control plane consists of into a cache outside the source tree, once for
// everybody who needs them: Kubernetes and cert-manager take minutes the first time and nothing afterwards. Two processes
// that ask for the same program build it once.
package program

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Source is a program in Go that can be built.
type Source struct {
	// Name is the file name of the built program.
	Name string
	// Dir is the folder to build in, with the program's go.mod at its root.
	Dir string
	// Package is the package to build, "." if empty.
	Package string
	// Modfile is given to -modfile, relative to Dir, when the versions are not those of go.mod.
	Modfile string
	// LinkFlags are given to -ldflags.
	LinkFlags string
	// Static leaves C out, so that the program runs where no C library is; Trimpath leaves out the paths of this machine.
	// Both together are how the released programs are built.
	Static, Trimpath bool
	// Inputs are the files and folders, relative to Dir, that decide what comes out; the finished program is kept under
	// their hash and not even looked at again while they stay the same. With none, the go command decides each time
	// whether it has something to do, which is right for packages of a module that is being worked on.
	Inputs []string
	// Hint is shown when a build starts that may take minutes, such as "first time: several minutes".
	Hint string
}

// Build returns the path of the finished program and builds it first if need be, telling out how far it is. A nil out
// builds in silence.
func Build(ctx context.Context, out io.Writer, s Source) (string, error) {
	if out == nil {
		out = io.Discard
	}
	cache, err := Cache()
	if err != nil {
		return "", err
	}
	tc, err := findToolchain(ctx)
	if err != nil {
		return "", err
	}
	key, err := s.key(tc)
	if err != nil {
		return "", fmt.Errorf("hashing the source of %s: %w", s.Name, err)
	}
	dir := filepath.Join(cache, "programs", s.Name+"-"+key)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making the cache folder of %s: %w", s.Name, err)
	}
	Keep(dir)
	target := filepath.Join(dir, s.Name)
	if s.finished(target) {
		return target, nil
	}
	unlock, err := lock(ctx, filepath.Join(dir, "lock"), func() {
		fmt.Fprintf(out, "%s: another process is building it, waiting\n", s.Name)
	})
	if err != nil {
		return "", fmt.Errorf("waiting for the build of %s: %w", s.Name, err)
	}
	defer unlock()
	if s.finished(target) {
		return target, nil
	}
	if err := tc.build(ctx, out, s, target); err != nil {
		return "", err
	}
	return target, nil
}

// finished says whether the program is there and cannot be out of date.
func (s Source) finished(target string) bool {
	if len(s.Inputs) == 0 {
		return false
	}
	_, err := os.Stat(target)
	return err == nil
}

// Cache returns the folder that built programs live in: $LANYARD_CACHE, or lanyard in the user's cache folder.
func Cache() (string, error) {
	if dir := os.Getenv("LANYARD_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a cache folder (set LANYARD_CACHE to name one): %w", err)
	}
	return filepath.Join(dir, "lanyard"), nil
}
