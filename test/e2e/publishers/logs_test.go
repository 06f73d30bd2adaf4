//go:build linux

package publishers

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// batch is what a publisher of the program workload says of a batch.
type batch struct {
	N       int    `json:"n"`
	ID      string `json:"id"`
	Outcome string `json:"outcome"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Millis  int64  `json:"ms"`
}

// attempt is what the program says of one call.
type attempt struct {
	N       int    `json:"n"`
	As      string `json:"as"`
	ID      string `json:"id"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Reason  string `json:"reason"`
	Domain  string `json:"domain"`
	Millis  int64  `json:"ms"`
	Unix    int64  `json:"unix"`
}

// event is a line of the connector's log sink.
type event struct {
	Message    string `json:"message"`
	ID         string `json:"id"`
	Node       string `json:"node"`
	Pod        string `json:"pod"`
	PodUID     string `json:"podUID"`
	Caller     string `json:"caller"`
	Credential string `json:"credential"`
	Scope      string `json:"scope"`
}

// output is what a pod's container has written; before is the output of the container that ran before a restart.
func (r *rig) output(ctx context.Context, pod *corev1.Pod, container string, before bool) (string, error) {
	raw, err := r.admin.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container, Previous: before}).DoRaw(ctx)
	return string(raw), err
}

// lines are the JSON objects of an output that are of a type, as picked.
func lines[T any](output string, pick func(T) bool) []T {
	var out []T
	for line := range strings.Lines(output) {
		var one T
		if json.Unmarshal([]byte(line), &one) == nil && pick(one) {
			out = append(out, one)
		}
	}
	return out
}

func isBatch(b batch) bool     { return b.Outcome != "" }
func isAttempt(a attempt) bool { return a.Code != "" }

// batches are what a pod's publisher has said so far. A token in its log is a fault.
func (r *rig) batches(t testing.TB, pod *corev1.Pod) []batch {
	t.Helper()
	return lines(r.log(t, pod, "main"), isBatch)
}

// attempts are what a pod's program has said of its calls so far.
func (r *rig) attempts(t testing.TB, pod *corev1.Pod) []attempt {
	t.Helper()
	return lines(r.log(t, pod, "main"), isAttempt)
}

// log reads a container's log; while the kubelet does not answer it is empty.
func (r *rig) log(t testing.TB, pod *corev1.Pod, container string) string {
	t.Helper()
	out, err := r.output(t.Context(), pod, container, false)
	if err != nil {
		return ""
	}
	if strings.Contains(out, "eyJ") {
		t.Errorf("the log of %s/%s holds a token", pod.Namespace, pod.Name)
	}
	return out
}

// count counts batches by their outcome.
func count(all []batch, outcome string) int {
	n := 0
	for _, b := range all {
		if b.Outcome == outcome {
			n++
		}
	}
	return n
}

// slowest is the longest that a batch was on its way.
func slowest(all []batch) int64 {
	most := int64(0)
	for _, b := range all {
		most = max(most, b.Millis)
	}
	return most
}

// tail is the end of a text, for a failed test.
func tail(s string) string { return s[max(0, len(s)-3000):] }
