//go:build linux

package publishers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// inside runs a program of a node's on it.
func (r *rig) inside(ctx context.Context, node string, command ...string) (string, error) {
	return r.Cluster.InNode(ctx, node, command...)
}

// disk is where a node's disk is on this machine.
func (r *rig) disk(node string) string { return r.Cluster.NodeDir(node) }

// connectorPID is the process of a node's connector, as the node counts.
func (r *rig) connectorPID(t testing.TB, node string) (string, error) {
	t.Helper()
	list, err := r.connectors(t.Context(), "connector", node)
	if err != nil {
		return "", err
	}
	if len(list) != 1 || len(list[0].Status.ContainerStatuses) != 1 {
		return "", fmt.Errorf("%d connectors on %s, want 1 with a container", len(list), node)
	}
	return r.pidOf(t.Context(), node, list[0].Status.ContainerStatuses[0])
}

// signalPod sends a signal to the program of a pod of ours.
func (r *rig) signalPod(t testing.TB, pod *corev1.Pod, signal string) {
	t.Helper()
	now := r.fresh(t, pod)
	if len(now.Status.ContainerStatuses) != 1 {
		t.Fatalf("%s has no container", now.Name)
	}
	pid, err := r.pidOf(t.Context(), now.Spec.NodeName, now.Status.ContainerStatuses[0])
	must(t, err)
	_, err = r.inside(t.Context(), now.Spec.NodeName, "kill", "-"+signal, pid)
	must(t, err)
}

// pidOf is the first process of a container, as the node counts.
func (r *rig) pidOf(ctx context.Context, node string, s corev1.ContainerStatus) (string, error) {
	_, id, _ := strings.Cut(s.ContainerID, "://")
	out, err := r.inside(ctx, node, "ctr", "--namespace=k8s.io", "tasks", "ls")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == id && words[2] == "RUNNING" {
			return words[1], nil
		}
	}
	return "", fmt.Errorf("container %s does not run on %s", s.Name, node)
}

// signal sends a signal to a node's connector.
func (r *rig) signal(t testing.TB, node, signal string) {
	t.Helper()
	pid, err := r.connectorPID(t, node)
	must(t, err)
	_, err = r.inside(t.Context(), node, "kill", "-"+signal, pid)
	must(t, err)
}

// release lays the file for which a waiting pod waits. It needs nothing of the API server.
func (r *rig) release(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	dir := filepath.Join(r.disk(nodeOf(pod)), "var/lib/kubelet/pods", string(pod.UID), "volumes/kubernetes.io~empty-dir", goVolume)
	must(t, os.WriteFile(filepath.Join(dir, filepath.Base(goFile)), nil, 0o644))
}
