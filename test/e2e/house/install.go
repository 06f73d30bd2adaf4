//go:build unix

package house

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// Chart is the path of the chart in this tree.
func Chart() string {
	tree, err := program.Tree()
	if err != nil {
		return "charts/lanyard" // helm will say that it is not there
	}
	return filepath.Join(tree, "charts", "lanyard")
}

// DefaultValues are what the chart is installed with: our image, who is managed and listed, and time for a machine that runs two
// clusters at once. Everything else is the chart's.
func (h *House) DefaultValues() string {
	repository, tag, _ := strings.Cut(h.Image, ":")
	return fmt.Sprintf(`
image: {repository: %q, tag: %q}
jobs: {namespaces: [%s]}
publishers: [%s/%s]
webhook: {timeoutSeconds: 10}
`, repository, tag, Managed, Listed, Monitor)
}

// Install installs a chart as its users do, and waits until everything of it is ready. values are YAML that is added to the
// house's, and wins.
func (h *House) Install(ctx context.Context, chart, values string, args ...string) error {
	h.vouched.Store(false)
	return h.release(ctx, "install", chart, values, append([]string{"--create-namespace"}, args...)...)
}

// Upgrade upgrades the release to a chart and waits until everything of it is ready.
func (h *House) Upgrade(ctx context.Context, chart, values string, args ...string) error {
	return h.release(ctx, "upgrade", chart, values, args...)
}

// Uninstall removes the release and waits until its objects are gone.
func (h *House) Uninstall(ctx context.Context) error {
	if out, err := h.Cluster.Helm(ctx, "uninstall", Release, "--namespace="+Namespace, "--wait", "--timeout="+patience.String()); err != nil {
		return fmt.Errorf("helm uninstall: %w: %s", err, out)
	}
	return nil
}

// Render is what a chart installs with values, all objects, as YAML. Nothing is installed.
func (h *House) Render(ctx context.Context, chart, values string) (string, error) {
	file, err := h.valuesFile(values)
	if err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(file) }()
	version, err := h.Admin.Discovery().ServerVersion()
	if err != nil {
		return "", err
	}
	out, err := h.Cluster.Helm(ctx, "template", Release, chart, "--namespace="+Namespace, "--values="+file, "--kube-version="+version.GitVersion)
	if err != nil {
		return "", fmt.Errorf("helm template: %w: %s", err, out)
	}
	return out, nil
}

func (h *House) release(ctx context.Context, verb, chart, values string, args ...string) error {
	file, err := h.valuesFile(values)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file) }()
	all := append([]string{verb, Release, chart, "--namespace=" + Namespace, "--values=" + file, "--wait", "--timeout=" + patience.String()}, args...)
	if out, err := h.Cluster.Helm(ctx, all...); err != nil {
		return fmt.Errorf("helm %s: %w: %s", verb, err, out)
	}
	return nil
}

// valuesFile lays values over the house's and returns the file that holds them all.
func (h *House) valuesFile(values string) (string, error) {
	merged, err := merge(h.DefaultValues(), h.options.Values, values)
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp(h.Cluster.Dir(), "values-*.yaml")
	if err != nil {
		return "", err
	}
	_, err = file.Write(merged)
	if err := errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// merge lays values over values, mapping by mapping, as helm does.
func merge(texts ...string) ([]byte, error) {
	all := map[string]any{}
	for _, text := range texts {
		var one map[string]any
		if err := yaml.Unmarshal([]byte(text), &one); err != nil {
			return nil, fmt.Errorf("reading values: %w", err)
		}
		lay(all, one)
	}
	return yaml.Marshal(all)
}

func lay(under, over map[string]any) {
	for key, value := range over {
		into, ok := under[key].(map[string]any)
		more, isMap := value.(map[string]any)
		if ok && isMap {
			into = maps.Clone(into)
			lay(into, more)
			value = into
		}
		under[key] = value
	}
}
