//go:build unix

package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/lanyard-k8s/lanyard/test/cluster"
)

// fleet makes two nodes with a monitor on each and starts the connector of the first.
func fleet(ctx context.Context, s *stage) error {
	s.say("# two nodes, a monitor's pod on each; the tokens are asked for as the nodes' kubelets do")
	manifest, err := manifests.ReadFile("manifests/fleet.yaml")
	if err != nil {
		return fmt.Errorf("reading the manifest: %w", err)
	}
	if _, err := s.kubectl(ctx, cluster.Admin, manifest, "apply", "-f", "-"); err != nil {
		return err
	}
	if err := s.cp.AwaitServiceAccount(ctx, s.in.Namespace()); err != nil {
		return err
	}
	if manifest, err = manifests.ReadFile("manifests/connector.yaml"); err != nil {
		return fmt.Errorf("reading the manifest: %w", err)
	}
	if _, err := s.kubectl(ctx, cluster.Admin, manifest, "apply", "-f", "-"); err != nil {
		return err
	}
	if err := s.takeTokens(ctx); err != nil {
		return err
	}
	if s.connector, err = s.startConnector(ctx, "connector", "enforce"); err != nil {
		return err
	}
	s.tick("connector of node-1 ready on its Unix socket, with the rights of the chart's service account")
	return nil
}

// takeTokens asks for the tokens of the connector's pod and of both monitors.
func (s *stage) takeTokens(ctx context.Context) (err error) {
	const own = "lanyard-connector-node-1"
	if s.apiToken, err = s.kubeletToken(ctx, nodeOne, s.in.Namespace(), "lanyard-connector", own, ""); err != nil {
		return err
	}
	if s.ownToken, err = s.kubeletToken(ctx, nodeOne, s.in.Namespace(), "lanyard-connector", own, audience); err != nil {
		return err
	}
	for pod, node := range map[string]string{"monitor-1": nodeOne, "monitor-2": "node-2"} {
		if s.tokens[pod], err = s.kubeletToken(ctx, node, "gpu-fleet", "gpu-monitor", pod, audience); err != nil {
			return err
		}
	}
	return nil
}

// ownNode reports a fault without naming a node, and waits for the node's condition.
func ownNode(ctx context.Context, s *stage) error {
	if _, err := s.publish(ctx, s.connector, "monitor-1", true, "--check", "GpuXidError", "--fatal", "--error-code", "79", "--entity", "GPU=GPU-0", "--message", "GPU fell off the bus"); err != nil {
		return err
	}
	const path = `{range .status.conditions[?(@.type=="GpuXidError")]}{.status} {.reason}{end}`
	if err := s.poll(ctx, func() (bool, error) {
		got, err := s.kubectl(ctx, cluster.Admin, nil, "get", "node", nodeOne, "-o", "jsonpath="+path)
		return got != "", err
	}); err != nil {
		return fmt.Errorf("waiting for the node's condition: %w", err)
	}
	return s.show(ctx, "node/"+nodeOne, "default", wanted{"condition GpuXidError", path, "True GpuXidErrorIsNotHealthy"})
}

// foreignNode names a node that the caller does not run on.
func foreignNode(ctx context.Context, s *stage) error {
	return s.unpublished(ctx, "monitor-1", "names another node", "--check", "GpuXidError", "--fatal", "--node", "node-2")
}

// stolen presents the other node's token.
func stolen(ctx context.Context, s *stage) error {
	return s.unpublished(ctx, "monitor-2", "the token was issued on another node", "--check", "GpuXidError", "--fatal")
}

// deleted deletes the pod and measures how long its token goes on being accepted.
func deleted(ctx context.Context, s *stage) error {
	s.say("admin$ kubectl delete pod monitor-1 -n gpu-fleet --force")
	if _, err := s.kubectl(ctx, cluster.Admin, nil, "delete", "pod", "monitor-1", "-n", "gpu-fleet", "--force", "--grace-period=0"); err != nil {
		return err
	}
	gone := time.Now()
	if err := s.unpublished(ctx, "monitor-1", "the token's pod has ended", "--check", "GpuXidError", "--healthy"); err != nil {
		return err
	}
	s.tick("asked " + time.Since(gone).Round(time.Millisecond).String() + " after the deletion; the API server's own review would still have said yes for up to ten seconds")
	return nil
}

// audit starts a second connector that lets violations through, and asks it whom enforce would break.
func audit(ctx context.Context, s *stage) error {
	c, err := s.startConnector(ctx, "connector-audit", "audit")
	if err != nil {
		return err
	}
	if _, err := s.publish(ctx, c, "monitor-2", true, "--check", "GpuXidError", "--fatal"); err != nil {
		return err
	}
	const series = `platform_connector_auth_violations_total{reason="node_claim_mismatch"} 1`
	page, err := c.page(ctx, "/metrics")
	if err != nil {
		return err
	}
	if !strings.Contains(page, series) {
		return errors.New("the metrics lack " + series)
	}
	s.tick(series)
	recent, err := c.page(ctx, "/debug/violations")
	if err != nil {
		return err
	}
	s.say("$ curl " + c.metrics + "/debug/violations")
	s.quote(recent)
	if !strings.Contains(recent, `system:serviceaccount:gpu-fleet:gpu-monitor`) {
		return errors.New("the list of violations does not name the caller")
	}
	s.tick("accepted, counted, and the caller is named")
	return nil
}

// unpublished is an error unless the connector refuses in these words.
func (s *stage) unpublished(ctx context.Context, pod, words string, args ...string) error {
	answer, err := s.publish(ctx, s.connector, pod, false, args...)
	if err != nil {
		return err
	}
	if !strings.Contains(answer, words) {
		return fmt.Errorf("it was refused, but the answer lacks %q", words)
	}
	s.tick("refused, as it should be")
	return nil
}

// publish runs `lanyard publish` with a pod's token and is an error unless it ends as wanted.
func (s *stage) publish(ctx context.Context, c *connector, pod string, accepted bool, args ...string) (string, error) {
	var shown []string
	for _, a := range args {
		if strings.ContainsAny(a, " ") {
			a = strconv.Quote(a)
		}
		shown = append(shown, a)
	}
	s.say(pod + "$ lanyard publish " + strings.Join(shown, " "))
	// The connector runs as whoever runs the demo, in a folder of theirs; on a node it is root's.
	all := append([]string{"publish", "--socket=" + c.socket, "--token-file=" + s.tokens[pod], "--timeout=5s",
		"--server-uid=" + strconv.Itoa(os.Getuid()), "--allow-writable-socket-dir"}, args...)
	command := exec.CommandContext(ctx, s.programs["lanyard"], all...)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	s.quote(out.String())
	exit := &exec.ExitError{}
	switch {
	case err != nil && !errors.As(err, &exit):
		return "", fmt.Errorf("publishing: %w", err)
	case accepted && err != nil:
		return "", errors.New("it was refused and should have been accepted")
	case !accepted && err == nil:
		return "", errors.New("it was accepted and should have been refused")
	case accepted:
		s.tick("accepted")
	}
	return out.String(), nil
}
