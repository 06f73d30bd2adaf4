//go:build unix

package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// ErrNoGo says that there is no Go toolchain to build with.
var ErrNoGo = errors.New("no go command on the PATH; install Go 1.26 or newer from https://go.dev/dl")

// ErrNoModules says that the modules to build from are neither on this machine nor to be had.
var ErrNoModules = errors.New("its modules are not on this machine and the module proxy cannot be reached; " +
	"set GOPROXY to one that can, or run once where there is network")

// toolchain is the go command that was found.
type toolchain struct {
	path    string
	version string
}

// findToolchain looks for the go command and asks for its version.
func findToolchain(ctx context.Context) (toolchain, error) {
	path, err := exec.LookPath("go")
	if err != nil {
		return toolchain{}, ErrNoGo
	}
	version, err := exec.CommandContext(ctx, path, "env", "GOVERSION", "GOOS", "GOARCH").Output()
	if err != nil {
		return toolchain{}, fmt.Errorf("asking %s for its version: %w", path, err)
	}
	return toolchain{path: path, version: strings.Join(strings.Fields(string(version)), " ")}, nil
}

// build runs go build. The program appears under its final name only when it is whole.
func (tc toolchain) build(ctx context.Context, out io.Writer, s Source, target string) error {
	partial := fmt.Sprintf("%s.%d", target, os.Getpid())
	if len(s.Inputs) == 0 {
		// The go command leaves a program alone that is up to date, if it finds it where it was.
		partial = target
	}
	cmd := exec.CommandContext(ctx, tc.path, s.arguments(partial)...)
	cmd.Dir = s.Dir
	if s.Static {
		cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	}
	// Only the last lines matter to a person, and -v prints a line for each package.
	var rest bytes.Buffer
	show := newProgress(out, s)
	cmd.Stderr = &lines{each: func(line string) {
		if !show.compiled(line) {
			fmt.Fprintln(&rest, line)
		}
	}}
	err := cmd.Run()
	show.finish(err == nil)
	if err != nil {
		if partial != target {
			_ = os.Remove(partial)
		}
		return explain(s.Name, err, rest.String())
	}
	if partial == target {
		return nil
	}
	return os.Rename(partial, target)
}

// arguments returns the go command's arguments. Nothing that differs between machines goes into a build, and nothing that
// would keep it from using the packages that another build has left in Go's cache.
func (s Source) arguments(target string) []string {
	args := []string{"build", "-v", "-buildvcs=false", "-o", target}
	if s.Modfile != "" {
		args = append(args, "-modfile="+s.Modfile)
	}
	if s.Trimpath {
		args = append(args, "-trimpath")
	}
	if s.LinkFlags != "" {
		args = append(args, "-ldflags="+s.LinkFlags)
	}
	if s.Package == "" {
		return append(args, ".")
	}
	return append(args, s.Package)
}

// explain turns the go command's complaint into what a person has to do.
func explain(name string, err error, output string) error {
	output = strings.TrimSpace(output)
	switch {
	case strings.Contains(output, "module lookup disabled"), strings.Contains(output, "dial tcp"),
		strings.Contains(output, "no such host"), strings.Contains(output, "i/o timeout"):
		return fmt.Errorf("building %s: %w: %w\n%s", name, ErrNoModules, err, output)
	case strings.Contains(output, "no space left on device"):
		return fmt.Errorf("building %s: the disk is full; about 5 GB are needed the first time: %w\n%s", name, err, output)
	}
	return fmt.Errorf("building %s: %w\n%s", name, err, output)
}
