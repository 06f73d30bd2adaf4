//go:build unix

package program

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// key names the build: what goes in, with which toolchain and flags. A source without inputs is named by its place, so that
// each working copy has its own program.
func (s Source) key(tc toolchain) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q %q\n", tc.version, s.Name, s.Package, s.Modfile, s.LinkFlags)
	if s.Static || s.Trimpath {
		fmt.Fprintf(h, "static %t trimpath %t\n", s.Static, s.Trimpath)
	}
	if len(s.Inputs) == 0 {
		dir, err := filepath.Abs(s.Dir)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%q\n", dir)
	}
	for _, input := range s.Inputs {
		if err := hashTree(h, s.Dir, input); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// hashTree adds every file below root/path, in order, by its name and content.
func hashTree(h io.Writer, root, path string) error {
	return filepath.WalkDir(filepath.Join(root, path), func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(h, "%q %d\n%s", name, len(content), content)
		return err
	})
}
