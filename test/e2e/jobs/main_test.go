//go:build linux

package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

const (
	// strict is a managed namespace with the restricted Pod Security Standard, meshed one with a second injector.
	strict, meshed = "team-strict", "team-mesh"
	// audience is what access tokens are for where nobody asked for another.
	audience = "nemo-platform-api"
)

const values = `
jobs: {namespaces: [team-a, team-strict, team-mesh], networkPolicy: {enabled: true}}
delegatingControllers:
  - {identity: "system:serviceaccount:kube-system:cronjob-controller", parents: [batch/CronJob]}
  - {identity: "` + fleetController + `", parents: [fleet.example.com/Fleet]}
`

var home = house.New(house.Options{Name: "jobs", Values: values, Prepare: prepare})

func TestMain(m *testing.M) { home.Main(m) }

// prepare makes what the chart's values name: the managed namespaces and the kind of parent.
func prepare(ctx context.Context, h *house.House) error {
	restricted := map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	for name, labels := range map[string]map[string]string{strict: restricted, meshed: nil} {
		if err := h.MakeNamespace(ctx, name, labels); err != nil {
			return err
		}
	}
	return prepareFleets(ctx, h)
}

// enter enters the house and has the further namespaces managed, as its notes tell the admin to once the chart is there.
func enter(t *testing.T) *house.House {
	t.Helper()
	h := home.Enter(t)
	settled.Do(func() {
		for _, name := range []string{strict, meshed} {
			must(t, h.MakeNamespace(t.Context(), name, map[string]string{wire.LabelJobs: wire.JobsManaged}))
		}
		h.AwaitIdentity(t)
	})
	return h
}

// settled is for what every test needs once.
var settled sync.Once

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// identity is a line of program workload's: an access token's claims, or why there was none.
type identity struct {
	Mode    string `json:"mode"`
	Subject string `json:"sub"`
	Actor   struct {
		Subject string `json:"sub"`
	} `json:"act"`
	For   []string `json:"aud"`
	Last  bool     `json:"last"`
	Error string   `json:"error"`
}

// identities are what a pod has said so far.
func identities(t *testing.T, h *house.House, pod *corev1.Pod) []identity {
	t.Helper()
	raw, err := h.Admin.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: "main"}).DoRaw(t.Context())
	if err != nil {
		return nil // the container has not begun
	}
	return house.Lines(t, string(raw), func(i identity) bool { return i.Error != "" || i.Subject != "" })
}

// run waits until a Job's pod has done its work and returns the one line that it printed.
func run(t *testing.T, h *house.House, job *batchv1.Job) identity {
	t.Helper()
	pod := h.PodOfJob(t, job)
	h.AwaitPod(t, pod.Namespace, pod.Name, corev1.PodSucceeded)
	all := identities(t, h, pod)
	if len(all) != 1 {
		t.Fatalf("pod %s/%s printed %d lines, want one: %+v", pod.Namespace, pod.Name, len(all), all)
	}
	return all[0]
}

// wantActing wants an identity to be somebody's, by the default account of a namespace.
func wantActing(t *testing.T, got identity, submitter, namespace string) {
	t.Helper()
	if got.Subject != submitter || got.Actor.Subject != "system:serviceaccount:"+namespace+":default" || !slices.Equal(got.For, []string{audience}) || got.Error != "" {
		t.Errorf("the pod acts as %+v, want sub %s and act.sub of namespace %s for %s", got, submitter, namespace, audience)
	}
}

// awaitMore waits until a pod has had so many more exchanges with the outcome that is wanted.
func awaitMore(t *testing.T, h *house.House, pod *corev1.Pod, more int, what string, want func(identity) bool) {
	t.Helper()
	count := func() int {
		return len(slices.DeleteFunc(identities(t, h, pod), func(i identity) bool { return !want(i) }))
	}
	before := count()
	house.Eventually(t, fmt.Sprintf("pod %s/%s to have %d exchanges more that are %s", pod.Namespace, pod.Name, more, what), func(context.Context) error {
		if now := count(); now < before+more {
			all := identities(t, h, pod)
			return fmt.Errorf("%d of %d, of %d lines; the last: %+v", now-before, more, len(all), all[max(0, len(all)-1):])
		}
		return nil
	})
}

func granted(i identity) bool { return i.Error == "" }

// refused says that the exchange has refused for good: 400, and what RFC 8693 (section 2.2.2) has for a token that does not count.
func refused(i identity) bool {
	return strings.Contains(i.Error, "status 400: invalid_request: the subject token was refused")
}

// podsOf are the pods with a label.
func podsOf(t *testing.T, h *house.House, namespace, selector string) []corev1.Pod {
	t.Helper()
	list, err := h.Admin.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	must(t, err)
	return list.Items
}
