//go:build unix

package program

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
)

// ModuleDir returns the folder that the source of a module lies in, which it downloads if need be. The version is the one
// that the go.mod in dir requires.
func ModuleDir(ctx context.Context, dir, path string) (string, error) {
	tc, err := findToolchain(ctx)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, tc.path, "mod", "download", "-json", path)
	cmd.Dir = dir
	out, err := cmd.Output()
	var module struct{ Dir, Error string }
	if decoding := json.Unmarshal(out, &module); decoding != nil && err == nil {
		err = decoding
	}
	if err != nil {
		return "", explain(path, err, module.Error)
	}
	if module.Dir == "" {
		return "", fmt.Errorf("downloading %s: the go command does not say where it is", path)
	}
	return module.Dir, nil
}
