//go:build linux

package publishers

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	_ "modernc.org/sqlite" // the driver of the connector's store

	"github.com/lanyard-k8s/lanyard/connector"
)

// storePath is the connector's store on every node.
const storePath = "/var/lib/lanyard/store/events.db"

// row is an event in a connector's store. The generated instant tells an event from one of the same id that was sent after a restart.
type row struct {
	ID         string
	Generated  int64
	Node       string
	PodUID     string
	Credential string
}

// rows are what a node's connector has stored of the events whose ids have a beginning.
func (r *rig) rows(t testing.TB, node, prefix string) []row {
	t.Helper()
	return awaitRows(t, node, filepath.Join(r.disk(node), storePath), prefix)
}

// awaitRows waits until a store can be read: one that is locked, or not there yet, does not say that nothing is in it.
func awaitRows(t testing.TB, whose, path, prefix string) (all []row) {
	t.Helper()
	said := ""
	await(t, patience, "the store of "+whose+" can be read", func() bool {
		var err error
		if all, err = readRows(path, prefix); err != nil && err.Error() != said {
			said = err.Error()
			t.Logf("reading the store of %s: %v", whose, err)
		}
		return err == nil
	})
	return all
}

func readRows(path, prefix string) (all []row, err error) {
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	found, err := db.Query(`SELECT event_id, generated_at, node_name, publisher_pod_uid, credential_id FROM health_events
		WHERE substr(event_id, 1, length(?1)) = ?1 ORDER BY id`, prefix)
	if err != nil {
		return nil, err
	}
	defer func() { _ = found.Close() }()
	for found.Next() {
		var one row
		if err := found.Scan(&one.ID, &one.Generated, &one.Node, &one.PodUID, &one.Credential); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, found.Err()
}

// kept wants everything that a publisher has had acknowledged so far to be in the store of its node, as often as it was acknowledged,
// and nothing to be there twice. What is acknowledged is on the node's disk, and is stored soon after.
func (r *rig) kept(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	r.keptIn(t, pod, func(prefix string) [][]row { return [][]row{r.rows(t, nodeOf(pod), prefix)} })
}

// keptIn is kept in some stores together. In each of them nothing may be twice.
func (r *rig) keptIn(t testing.TB, pod *corev1.Pod, stores func(prefix string) [][]row) {
	t.Helper()
	acknowledged := map[string]int{}
	for _, b := range r.everything(t, pod) {
		if b.Outcome == "acknowledged" {
			acknowledged[b.ID]++
		}
	}
	if len(acknowledged) == 0 {
		t.Fatalf("nothing of %s was acknowledged", pod.Name)
	}
	var all [][]row
	missing := ""
	defer func() { // await has ended the test by then
		if missing != "" {
			t.Errorf("%s was acknowledged and is not stored as often", missing)
		}
	}()
	await(t, patience, "everything acknowledged is stored", func() bool {
		all = stores(pod.Name + "-")
		stored := map[string]int{}
		for _, one := range slices.Concat(all...) {
			stored[one.ID]++
		}
		for id, n := range acknowledged {
			if stored[id] < n {
				missing = id
				return false
			}
		}
		missing = ""
		return true
	})
	for _, store := range all {
		once := map[row]bool{}
		for _, one := range store {
			key := row{ID: one.ID, Generated: one.Generated, PodUID: one.PodUID}
			if once[key] {
				t.Errorf("%s is stored twice", one.ID)
			}
			once[key] = true
			if one.Node != nodeOf(pod) {
				t.Errorf("%s is stored under %s, want %s", one.ID, one.Node, nodeOf(pod))
			}
		}
	}
	t.Logf("%s: %d acknowledged, %d stored, none lost and none twice in a store", pod.Name, len(acknowledged), len(slices.Concat(all...)))
}

// everything is what a publisher has said, before the container's last restart too.
func (r *rig) everything(t testing.TB, pod *corev1.Pod) []batch {
	t.Helper()
	before, err := r.output(t.Context(), pod, "main", true)
	if err != nil {
		before = "" // it was never restarted
	}
	return append(lines(before, isBatch), r.batches(t, pod)...)
}

// page is a page of a connector, as one gets it inside its pod.
func (r *rig) page(ctx context.Context, pod *corev1.Pod, path string) (string, error) {
	if len(pod.Status.ContainerStatuses) != 1 {
		return "", fmt.Errorf("pod %s has no container yet", pod.Name)
	}
	pid, err := r.pidOf(ctx, nodeOf(pod), pod.Status.ContainerStatuses[0])
	if err != nil {
		return "", err
	}
	request := fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/2112 && printf 'GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3 && cat <&3`, path)
	answer, err := r.inside(ctx, nodeOf(pod), "nsenter", "--net", "--target="+pid, "bash", "-c", request)
	if err != nil {
		return "", err
	}
	head, body, _ := strings.Cut(answer, "\r\n\r\n")
	first, _, _ := strings.Cut(head, "\r\n")
	if !strings.Contains(first, " 200 ") {
		return body, fmt.Errorf("the connector's page %s: %s", path, first)
	}
	return body, nil
}

// metric is the value of a connector's metric, by its full name with labels; -1 if there is none.
func (r *rig) metric(t testing.TB, pod *corev1.Pod, name string) float64 {
	t.Helper()
	out, err := r.page(t.Context(), pod, "/metrics")
	if err != nil {
		t.Logf("the metrics of %s: %v", pod.Name, err)
		return -1
	}
	for line := range strings.Lines(out) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			value, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			must(t, err)
			return value
		}
	}
	return -1
}

// violations are what connectors remember of those whom they refused.
func (r *rig) violations(t testing.TB, connectors ...corev1.Pod) (all []connector.Violation) {
	t.Helper()
	for _, pod := range connectors {
		out, err := r.page(t.Context(), &pod, "/debug/violations")
		var these struct {
			Violations []connector.Violation `json:"violations"`
		}
		if err == nil {
			err = json.Unmarshal([]byte(out), &these)
		}
		if err != nil {
			t.Fatalf("the violations of %s: %v: %s", pod.Name, err, out)
		}
		all = append(all, these.Violations...)
	}
	return all
}

// refusedFor wants the node's connector to have refused a pod, or a user where nobody vouches for the caller, for this reason and no other.
func (r *rig) refusedFor(t testing.TB, node, reason string, pod *corev1.Pod) {
	t.Helper()
	r.refusedBy(t, []corev1.Pod{*r.connector(t, node)}, reason, pod)
}

// refusedBy is refusedFor of any of some connectors.
func (r *rig) refusedBy(t testing.TB, connectors []corev1.Pod, reason string, pod *corev1.Pod) {
	t.Helper()
	user, found := *pod.Spec.SecurityContext.RunAsUser, false
	for _, v := range r.violations(t, connectors...) {
		if v.PodUID != string(pod.UID) && (v.PodUID != "" || v.User != user || user == nobody) {
			continue
		}
		if string(v.Reason) == reason && !v.LetThrough {
			found = true
			continue
		}
		t.Errorf("%s was refused for %s, want %s", pod.Name, v.Reason, reason)
	}
	if !found {
		t.Errorf("no connector remembers that it refused %s for %s", pod.Name, reason)
	}
}
