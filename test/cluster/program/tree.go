//go:build unix

package program

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// module is the line that the go.mod of the project's root begins with.
const module = "module github.com/lanyard-k8s/lanyard\n"

// ErrNoTree says that the sources to build from are not there.
var ErrNoTree = errors.New("not in Lanyard's source tree; change into it first")

// Tree returns the root of Lanyard's source tree, which the working folder must be in: tests and `make` are.
func Tree() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(content, []byte(module)) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", ErrNoTree
		}
		dir = parent
	}
}

// Required returns the version of a module, "v1.2.3", that a go.mod file requires.
func Required(gomod, path string) (string, error) {
	content, err := os.ReadFile(gomod)
	if err != nil {
		return "", fmt.Errorf("reading the version of %s: %w", path, err)
	}
	line := regexp.MustCompile(`(?m)^(?:require)?\s+` + regexp.QuoteMeta(path) + ` (v\S+)`)
	found := line.FindSubmatch(content)
	if found == nil {
		return "", fmt.Errorf("reading the version of %s: %s does not require it", path, gomod)
	}
	return string(found[1]), nil
}
