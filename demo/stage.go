//go:build unix

package demo

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/install"
)

//go:embed manifests/*.yaml
var manifests embed.FS

// stage is the control plane with Lanyard on it, and where the scenes are printed.
type stage struct {
	out    io.Writer
	colour bool
	cp     *cluster.ControlPlane
	in     *install.Installation

	programs           map[string]string // our programs by name
	tokens             map[string]string // token files by pod
	ownToken, apiToken string            // the connector's own, for its audience and for the API server
	connector          *connector
	exchange           exchange
	access             string   // the access token of alice's job
	folders            []string // to remove in the end
}

// nodePrefix begins the names that the API server knows kubelets by.
const nodePrefix = "system:node:"

// namespaces makes them. Those that the chart's values name come before the chart, which gives rights in them.
func (s *stage) namespaces(ctx context.Context) error {
	for _, name := range []string{"gpu-fleet", "gpu-monitors", "team-a", "elsewhere"} {
		if _, err := s.kubectl(ctx, cluster.Admin, nil, "create", "namespace", name); err != nil {
			return err
		}
	}
	return nil
}

// set labels the namespaces as a platform admin does and gives alice the right to work in them.
func (s *stage) set(ctx context.Context) error {
	for _, namespace := range []struct{ name, label string }{
		{"gpu-monitors", "lanyard.dev/publishers=enabled"},
		{"team-a", "lanyard.dev/jobs=managed"},
		{"elsewhere", ""},
	} {
		commands := [][]string{
			{"create", "rolebinding", "alice", "--clusterrole=edit", "--user=alice", "-n", namespace.name},
		}
		if namespace.label != "" {
			commands = append(commands, []string{"label", "namespace", namespace.name, namespace.label})
		}
		for _, c := range commands {
			if _, err := s.kubectl(ctx, cluster.Admin, nil, c...); err != nil {
				return err
			}
		}
		if err := s.cp.AwaitServiceAccount(ctx, namespace.name); err != nil {
			return err
		}
	}
	return s.awaitRights(ctx, "alice", "team-a", "elsewhere", "gpu-monitors")
}

// awaitRights waits until the API server knows that a user may work in these namespaces.
func (s *stage) awaitRights(ctx context.Context, user string, namespaces ...string) error {
	for _, namespace := range namespaces {
		if err := s.poll(ctx, func() (bool, error) {
			answer, err := s.kubectl(ctx, user, nil, "auth", "can-i", "create", "pods", "-n", namespace)
			return strings.TrimSpace(answer) == "yes", err
		}); err != nil {
			return fmt.Errorf("waiting until %s may work in %s: %w", user, namespace, err)
		}
	}
	return nil
}

// kubectl runs the real program as a user and returns what it printed.
func (s *stage) kubectl(ctx context.Context, user string, stdin []byte, args ...string) (string, error) {
	var groups []string
	if strings.HasPrefix(user, nodePrefix) {
		groups = []string{"system:nodes"}
	}
	kubeconfig, err := s.cp.Kubeconfig(user, groups...)
	if err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, s.cp.Kubectl(), append([]string{"--kubeconfig=" + kubeconfig}, args...)...)
	command.Stdin = bytes.NewReader(stdin)
	out, err := command.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %s as %s: %w: %s", strings.Join(args, " "), user, err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// create makes what a manifest says, as a user, and prints both sides of the conversation.
func (s *stage) create(ctx context.Context, user, file string) (string, error) {
	manifest, err := manifests.ReadFile("manifests/" + file)
	if err != nil {
		return "", fmt.Errorf("reading the manifest: %w", err)
	}
	s.say(user + "$ kubectl create -f - <<EOF")
	s.quote(string(manifest))
	s.say("EOF")
	answer, err := s.kubectl(ctx, user, manifest, "create", "-f", "-")
	s.quote(answer)
	return answer, err
}

// accepted makes what a manifest says and is an error if the API server refuses.
func (s *stage) accepted(ctx context.Context, user, file string) error {
	_, err := s.create(ctx, user, file)
	if err == nil {
		s.tick("accepted")
	}
	return err
}

// refused is an error unless the API server refuses with all of these words.
func (s *stage) refused(ctx context.Context, user, file string, words ...string) error {
	answer, err := s.create(ctx, user, file)
	if err == nil {
		return errors.New("it was accepted and should have been refused")
	}
	exit := &exec.ExitError{}
	if !errors.As(err, &exit) {
		return err
	}
	for _, word := range words {
		if !strings.Contains(answer, word) {
			return fmt.Errorf("it was refused, but the answer lacks %q", word)
		}
	}
	s.tick("refused, as it should be")
	return nil
}
