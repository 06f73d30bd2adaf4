//go:build unix

package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/process"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

const (
	nodeOne  = "node-1"
	audience = "platform-connector.nvsentinel.nvidia.com"
)

// connector is a connector of node-1, a process with the chart's configuration and the rights of the chart's account.
type connector struct {
	socket, metrics string
	process         *process.Process
}

// builtProgram builds one of our programs from the source tree.
func builtProgram(ctx context.Context, progress io.Writer, name string) (string, error) {
	tree, err := program.Tree()
	if err != nil {
		return "", err
	}
	return program.Build(ctx, progress, program.Source{Name: name, Dir: tree, Package: "./cmd/" + name})
}

// kubeletToken asks for a pod's token as the kubelet of its node does: nobody else may ask for this audience. The file is as
// a projected volume's would be.
func (s *stage) kubeletToken(ctx context.Context, node, namespace, account, pod, audience string) (file string, err error) {
	uid, err := s.kubectl(ctx, cluster.Admin, nil, "get", "pod", pod, "-n", namespace, "-o", "jsonpath={.metadata.uid}")
	if err != nil {
		return "", err
	}
	args := []string{"create", "token", account, "-n", namespace, "--bound-object-kind=Pod", "--bound-object-name=" + pod, "--bound-object-uid=" + uid}
	if audience != "" {
		args = append(args, "--audience="+audience)
	}
	token, err := s.kubectl(ctx, nodePrefix+node, nil, args...)
	if err != nil {
		return "", fmt.Errorf("asking for the token of pod %s as the kubelet of %s: %w", pod, node, err)
	}
	file = s.cp.Path("tokens", pod+"-"+audience)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(strings.TrimSpace(token)), 0o600)); err != nil {
		return "", fmt.Errorf("writing the token of pod %s: %w", pod, err)
	}
	return file, nil
}

// startConnector runs a connector of node-1 under the chart's configuration, with mode in place of the chart's, and waits
// until it is ready. Only the paths are others than in a container.
func (s *stage) startConnector(ctx context.Context, name, mode string) (*connector, error) {
	port, err := s.cp.Port()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "lanyard") // short, as the path of a socket must be
	if err != nil {
		return nil, fmt.Errorf("making the connector's folder: %w", err)
	}
	s.folders = append(s.folders, dir)
	config, settings, err := s.connectorFiles(dir, mode)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := s.cp.KubeconfigForTokenFile("lanyard-connector", s.apiToken)
	if err != nil {
		return nil, err
	}
	c := &connector{socket: filepath.Join(dir, "nvsentinel.sock"), metrics: fmt.Sprintf("http://127.0.0.1:%d", port)}
	c.process, err = s.cp.StartProcess(name, "/usr/bin/env", "NODE_NAME="+nodeOne, "POD_NAMESPACE="+s.in.Namespace(), s.programs["connector"],
		"--role=socket", "--config="+config, "--settings="+settings, "--kubeconfig="+kubeconfig, "--socket="+c.socket,
		fmt.Sprintf("--metrics-listen=127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	if err := s.poll(ctx, func() (bool, error) {
		answer, err := c.page(ctx, "/readyz")
		return err == nil && strings.TrimSpace(answer) == "ready", err
	}); err != nil {
		return nil, fmt.Errorf("waiting for the connector: %w; its log ends with\n%s", err, c.process.Tail(15))
	}
	return c, nil
}

// connectorFiles writes config.json and the settings as the chart renders them, but for the mode and the paths.
func (s *stage) connectorFiles(dir, mode string) (config, settings string, err error) {
	rendered, err := s.configMap("lanyard-connector", "config.json")
	if err != nil {
		return "", "", err
	}
	auth := map[string]any{}
	if err := json.Unmarshal([]byte(rendered), &auth); err != nil {
		return "", "", fmt.Errorf("reading the chart's config.json: %w", err)
	}
	auth["AuthMode"] = mode
	if rendered, err = s.configMap("lanyard-connector-socket", "settings.yaml"); err != nil {
		return "", "", err
	}
	ours := map[string]any{}
	if err := yaml.Unmarshal([]byte(rendered), &ours); err != nil {
		return "", "", fmt.Errorf("reading the chart's settings: %w", err)
	}
	ours["selfTest"] = map[string]any{"tokenFile": s.ownToken, "apiTokenFile": s.apiToken}
	if err := unstructured.SetNestedField(ours, filepath.Join(dir, "spool"), "spool", "directory"); err != nil {
		return "", "", fmt.Errorf("changing the chart's settings: %w", err)
	}
	one, err := json.Marshal(auth)
	if err != nil {
		return "", "", fmt.Errorf("writing config.json: %w", err)
	}
	two, err := yaml.Marshal(ours)
	if err != nil {
		return "", "", fmt.Errorf("writing the settings: %w", err)
	}
	config, settings = filepath.Join(dir, "config.json"), filepath.Join(dir, "settings.yaml")
	if err := errors.Join(os.WriteFile(config, one, 0o600), os.WriteFile(settings, two, 0o600)); err != nil {
		return "", "", fmt.Errorf("writing the connector's files: %w", err)
	}
	return config, settings, nil
}

// configMap is a key of a ConfigMap that the chart renders.
func (s *stage) configMap(name, key string) (string, error) {
	for _, object := range s.in.Objects() {
		if object.GetKind() == "ConfigMap" && object.GetName() == name {
			if text, found, err := unstructured.NestedString(object.Object, "data", key); found && err == nil {
				return text, nil
			}
		}
	}
	return "", fmt.Errorf("the chart renders no ConfigMap %s with a key %s", name, key)
}

// page reads a page of the connector's metrics listener.
func (c *connector) page(ctx context.Context, path string) (string, error) {
	return page(ctx, c.metrics+path)
}

// page reads a page of a program's metrics listener.
func page(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", url, err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", url, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", url, err)
	}
	return string(body), nil
}
