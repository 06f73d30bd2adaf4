//go:build unix

package house

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	tellAtMost = 3  // failed tests of a package that are told about
	tailLines  = 30 // of a container's log
)

// Tell prints what is known of the cluster when something went wrong: pods, events other than normal ones, the ends of our pods'
// logs. Our programs log no tokens, so neither does this.
func (h *House) Tell(out io.Writer) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Fprintln(out, "--- the cluster, as it is now")
	for _, args := range [][]string{
		{"get", "nodes", "-o", "wide"},
		{"get", "pods", "-A", "-o", "wide"},
		{"get", "pvc,certificates", "-n", Namespace},
		{"get", "events", "-A", "--field-selector=type!=Normal", "--sort-by=.lastTimestamp"},
	} {
		said, err := h.Cluster.Kubectl(ctx, args...)
		fmt.Fprintf(out, "$ kubectl %s\n%s", strings.Join(args, " "), said)
		if err != nil {
			fmt.Fprintln(out, err)
		}
	}
	h.tellLogs(ctx, out)
	fmt.Fprintln(out, "--- end of the cluster")
}

// tellLogs prints the ends of the logs of our pods, and of a container's life before this one.
func (h *House) tellLogs(ctx context.Context, out io.Writer) {
	if h.Admin == nil {
		return
	}
	pods, err := h.Admin.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Fprintln(out, "listing our pods:", err)
		return
	}
	for _, pod := range pods.Items {
		for _, c := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			h.tellLog(ctx, out, pod, c, false)
			if c.RestartCount > 0 {
				h.tellLog(ctx, out, pod, c, true)
			}
		}
	}
}

func (h *House) tellLog(ctx context.Context, out io.Writer, pod corev1.Pod, c corev1.ContainerStatus, previous bool) {
	raw, err := h.Admin.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container: c.Name, TailLines: new(int64(tailLines)), Previous: previous,
	}).DoRaw(ctx)
	fmt.Fprintf(out, "--- %s/%s, restarts %d, previous %t\n%s", pod.Name, c.Name, c.RestartCount, previous, raw)
	if err != nil {
		fmt.Fprintln(out, err)
	}
}
