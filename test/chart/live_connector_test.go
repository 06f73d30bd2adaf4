//go:build unix

package chart

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/cluster/process"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// What the chart renders for the connector is one thing with the program: its flags, both files, the account's rights and the
// policy that fences it. So the program is run as the DaemonSet would, with the account's own token, on a control plane of
// its own, where nobody has more rights than the chart gives.

func TestTheProgramRunsAsTheChartStartsIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, "--set", watched)
	p, metrics := r.start()
	log := func() string {
		raw, _ := os.ReadFile(p.Log())
		return string(raw)
	}
	socket := filepath.Join(r.root, "var/run/nvsentinel/nvsentinel.sock")
	for what, done := range map[string]func(context.Context) bool{
		"ready": func(ctx context.Context) bool { return reads(ctx, metrics+"/readyz") },
		"the fence stands": func(context.Context) bool {
			return strings.Contains(log(), "the policy for socket connectors is in force")
		},
		"the socket is there": func(context.Context) bool { _, err := os.Stat(socket); return err == nil },
	} {
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
			return done(ctx), nil
		})
		if err != nil {
			t.Errorf("not so: %s", what)
		}
	}
	r.report(socket)
	r.must(p.Stop(context.Background(), 25*time.Second))
	if t.Log(log()); strings.Contains(log(), "forbidden") {
		t.Error("the program asks for more than the chart lets it have")
	}
}

// watched has the chart give a namespace whose pods the connector watches.
const watched = "publishers={gpu/monitor}"

// start runs the program with the arguments of the DaemonSet's container and returns where its metrics are.
func (r *rig) start() (*process.Process, string) {
	r.t.Helper()
	tree, err := program.Tree()
	r.must(err)
	binary, err := program.Build(r.t.Context(), os.Stderr, program.Source{Name: "connector", Dir: tree, Package: "./cmd/connector"})
	r.must(err)
	_, spec, _ := podOf(r.t, find(r.objects, "DaemonSet", wire.AccountSocketConnector))
	api := r.files(spec.ServiceAccountName)
	port, err := r.cp.Port()
	r.must(err)
	metrics := fmt.Sprintf("127.0.0.1:%d", port)
	args := []string{"NODE_NAME=node-a", "POD_NAMESPACE=" + Namespace, binary}
	for _, a := range spec.Containers[0].Args {
		args = append(args, strings.Replace(r.inside(a), ":2112", metrics, 1))
	}
	p, err := r.cp.StartProcess("connector", "/usr/bin/env", append(args, "--kubeconfig="+r.kubeconfig(api))...)
	r.must(err)
	return p, "http://" + metrics
}

// files lays out what the container finds, and returns its token for the API server.
func (r *rig) files(account string) string {
	r.t.Helper()
	pod, err := r.admin.CoreV1().Pods(Namespace).Create(r.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "connector"},
		Spec:       corev1.PodSpec{NodeName: "node-a", ServiceAccountName: account, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	r.must(err)
	api := r.token(pod)
	settings := fileOf(r.t, "default", "lanyard-connector-socket", "settings.yaml", "--set", watched)
	r.write("/var/run/secrets/kubernetes.io/serviceaccount/token", []byte(api))
	r.write("/var/run/secrets/lanyard/connector/token", []byte(r.token(pod, wire.DefaultPublisherAudience)))
	r.write("/etc/config/config.json", fileOf(r.t, "default", "lanyard-connector", "config.json"))
	r.write("/etc/lanyard/settings/settings.yaml", []byte(r.inside(string(settings))))
	for _, dir := range []string{"var/run/nvsentinel", "var/lib/lanyard/spool"} {
		r.must(os.MkdirAll(filepath.Join(r.root, dir), 0o755)) // as the kubelet makes them
	}
	return api
}

// report says by the socket that a GPU of the node is broken, without a token and without the node's name, and waits until the
// node shows it.
func (r *rig) report(socket string) {
	r.t.Helper()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	r.must(err)
	defer conn.Close()
	event := &healtheventv1.HealthEvent{Version: 1, Agent: "monitor", CheckName: "GpuXid", IsFatal: true, Message: "fell off the bus"}
	_, err = healtheventv1.NewPlatformConnectorClient(conn).HealthEventOccurredV1(r.t.Context(), &healtheventv1.HealthEvents{Version: 1, Events: []*healtheventv1.HealthEvent{event}})
	r.must(err)
	err = wait.PollUntilContextTimeout(r.t.Context(), 50*time.Millisecond, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		node, err := r.admin.CoreV1().Nodes().Get(ctx, "node-a", metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == "GpuXid" && c.Reason == "GpuXid"+wire.ReasonUnhealthySuffix
		}), err
	})
	if err != nil {
		r.t.Error("the node does not show the condition")
	}
}

// reads says whether a page answers that all is well.
func reads(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
}
