//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// programs are the built programs that a control plane consists of.
type programs struct {
	// tree is the root of the source tree.
	tree string
	// bin is the folder with one link for each component and kubectl.
	bin string
	// guard is the program of package process.
	guard string
	// version is the version of Kubernetes, "v1.2.3".
	version string
}

// path returns the path of a component's program, or of kubectl.
func (p programs) path(c Component) string { return filepath.Join(p.bin, string(c)) }

// programPath returns the path of a component's program; the scheduler's comes from whoever adds nodes.
func (cp *ControlPlane) programPath(c Component) string {
	if c == Scheduler {
		return cp.options.Place.Scheduler
	}
	return cp.programs.path(c)
}

// Build builds what Start needs, or finds it built. Start does so by itself; whoever bounds the time of a start calls Build before,
// since it takes minutes the first time.
func Build(ctx context.Context, out io.Writer) error {
	_, err := buildPrograms(ctx, out)
	return err
}

// buildPrograms builds Kubernetes and the guard, or finds them built.
func buildPrograms(ctx context.Context, out io.Writer) (programs, error) {
	tree, err := program.Tree()
	if err != nil {
		return programs{}, err
	}
	version, err := program.Required(filepath.Join(tree, "test/cluster/k8s/go.mod"), "k8s.io/kubernetes")
	if err != nil {
		return programs{}, err
	}
	kubernetes, err := program.Build(ctx, out, program.Source{
		Name:      "k8s",
		Dir:       filepath.Join(tree, "test/cluster/k8s"),
		Inputs:    []string{"go.mod", "go.sum", "main.go"},
		LinkFlags: LinkVersion(version),
		Hint:      "etcd and Kubernetes " + version + ": several minutes the first time, nothing later",
	})
	if err != nil {
		return programs{}, err
	}
	guard, err := program.Build(ctx, out, program.Source{
		Name:    "guard",
		Dir:     tree,
		Package: "./test/cluster/process/guard",
		Inputs:  []string{"test/cluster/process/guard"},
	})
	if err != nil {
		return programs{}, err
	}
	bin := filepath.Dir(kubernetes)
	return programs{tree: tree, bin: bin, guard: guard, version: version}, link(bin, filepath.Base(kubernetes))
}

// link lays a symbolic link for each name that the program answers to.
func link(bin, target string) error {
	for _, name := range []string{string(Etcd), string(APIServer), string(ControllerManager), "kubectl"} {
		if err := os.Symlink(target, filepath.Join(bin, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("laying links to the programs: %w", err)
		}
	}
	return nil
}

// LinkVersion returns the linker's flags that tell the programs their version, which source from a module does not know.
// Without it the server says v0.0.0, at which helm and kubectl stop.
func LinkVersion(version string) string {
	number := strings.Split(strings.TrimPrefix(version, "v"), ".")
	flags := []string{"-s", "-w"}
	for _, path := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, set := range [][2]string{
			{"gitVersion", version}, {"gitMajor", number[0]}, {"gitMinor", number[1]},
			{"gitTreeState", "clean"}, {"gitCommit", "module"}, {"buildDate", "1970-01-01T00:00:00Z"},
		} {
			flags = append(flags, "-X", path+"."+set[0]+"="+set[1])
		}
	}
	return strings.Join(flags, " ")
}
