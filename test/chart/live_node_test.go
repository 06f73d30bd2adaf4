//go:build unix

package chart

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/cluster"
)

// fenced is a cluster with two nodes and the socket connector's pod on the first. Its account may write everything, so that
// what is refused is refused by the policy.
type fenced struct {
	t     *testing.T
	cp    *cluster.ControlPlane
	admin *kubernetes.Clientset
	own   string
	other string
}

func newFenced(t *testing.T) *fenced {
	t.Helper()
	cp := live(t)
	config, err := cp.Config()
	if err != nil {
		t.Fatal(err)
	}
	f := &fenced{t: t, cp: cp, admin: kubernetes.NewForConfigOrDie(config)}
	prefix := strings.ToLower(t.Name())
	f.own, f.other = f.node(prefix+"-own"), f.node(prefix+"-other")
	f.allow("nodes-"+prefix, rbacv1.PolicyRule{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"nodes", "nodes/status", "nodes/proxy", "events"}, Verbs: []string{"*"}})
	f.await()
	return f
}

// await waits until the policy is in force.
func (f *fenced) await() {
	f.t.Helper()
	connector, last := f.as(wire.AccountSocketConnector, f.own), error(nil)
	err := wait.PollUntilContextTimeout(f.t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		_, last = connector.CoreV1().Nodes().Patch(ctx, f.own, types.StrategicMergePatchType, []byte(setting("Ready", "False", "x")),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
		return last != nil && strings.Contains(last.Error(), wire.PolicyNodeStatus), nil
	})
	if err != nil {
		f.t.Fatalf("%s did not come into force; the last answer was: %v", wire.PolicyNodeStatus, last)
	}
}

// node makes a node with conditions as a running cluster has them.
func (f *fenced) node(name string) string {
	f.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "gpu"}}}
	_, err := f.admin.CoreV1().Nodes().Create(f.t.Context(), node, metav1.CreateOptions{})
	f.must(err)
	const status = `{"status":{"capacity":{"cpu":"8"},"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"},` +
		`{"type":"GpuXid","status":"True","reason":"GpuXidIsNotHealthy"},{"type":"KernelDeadlock","status":"False","reason":"KernelHasNoDeadlock"}]}}`
	_, err = f.admin.CoreV1().Nodes().Patch(f.t.Context(), name, types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status")
	f.must(err)
	return name
}

// allow gives the account of the socket connector a right, and every other that a test acts as.
func (f *fenced) allow(name string, rules ...rbacv1.PolicyRule) {
	f.t.Helper()
	_, err := f.admin.RbacV1().ClusterRoles().Create(f.t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
	f.must(err)
	_, err = f.admin.RbacV1().ClusterRoleBindings().Create(f.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts"}},
	}, metav1.CreateOptions{})
	f.must(err)
}

// as is a client with a real token of the account, bound to a pod on a node; without a node to no pod at all.
func (f *fenced) as(account, node string) *kubernetes.Clientset {
	f.t.Helper()
	request := &authenticationv1.TokenRequest{}
	if node != "" {
		pod, err := f.admin.CoreV1().Pods(Namespace).Create(f.t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "connector-"},
			Spec:       corev1.PodSpec{NodeName: node, ServiceAccountName: account, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}, metav1.CreateOptions{})
		f.must(err)
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	answer, err := f.admin.CoreV1().ServiceAccounts(Namespace).CreateToken(f.t.Context(), account, request, metav1.CreateOptions{})
	f.must(err)
	return kubernetes.NewForConfigOrDie(f.cp.ConfigForToken(answer.Status.Token))
}

func (f *fenced) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// setting is the patch of one condition.
func setting(condition, status, reason string) string {
	return fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":%q,"reason":%q}]}}`, condition, status, reason)
}

func TestTheConnectorIsHeldToItsNode(t *testing.T) {
	t.Parallel()
	f := newFenced(t)
	connector, unbound := f.as(wire.AccountSocketConnector, f.own), f.as(wire.AccountSocketConnector, "")
	stranger := f.as("monitor", f.own)
	good := setting("NvLink", "True", "NvLinkIsNotHealthy")
	const other, conditions, only, token = "may change no other node", "these conditions: ", "nothing of a node but status.conditions", "does not name the one node"
	for name, tc := range map[string]struct {
		by    *kubernetes.Clientset // the connector if nil
		node  string                // its own if empty
		patch string
		kind  types.PatchType // strategic merge if empty
		main  bool            // the node itself, not its status
		want  string
	}{
		"a condition of its own node":       {patch: good},
		"one that is ours already":          {patch: setting("GpuXid", "False", "GpuXidIsHealthy")},
		"a condition of another node":       {node: f.other, patch: good, want: other},
		"Ready":                             {patch: setting("Ready", "False", "KubeletReady"), want: conditions + "Ready"},
		"Ready under a reason of ours":      {patch: setting("Ready", "False", "ReadyIsNotHealthy"), want: conditions + "Ready"},
		"NetworkUnavailable":                {patch: setting("NetworkUnavailable", "True", "NetworkUnavailableIsNotHealthy"), want: conditions},
		"somebody else's condition":         {patch: setting("KernelDeadlock", "True", "KernelDeadlockIsNotHealthy"), want: conditions + "KernelDeadlock"},
		"a foreign type":                    {patch: setting("Elsewhere", "True", "ElsewhereIsNotHealthy"), want: conditions + "Elsewhere"},
		"a foreign reason":                  {patch: setting("NvLink", "True", "Broken"), want: conditions + "NvLink"},
		"a type with a slash":               {patch: setting("a/b", "True", "a/bIsNotHealthy"), want: conditions},
		"every condition replaced":          {kind: types.MergePatchType, patch: good, want: conditions},
		"a condition removed":               {patch: `{"status":{"conditions":[{"type":"Ready","$patch":"delete"}]}}`, want: conditions + "Ready"},
		"capacity":                          {patch: `{"status":{"capacity":{"nvidia.com/gpu":"8"}}}`, want: only},
		"an address":                        {patch: `{"status":{"addresses":[{"type":"InternalIP","address":"10.0.0.9"}]}}`, want: only},
		"the kubelet's version":             {patch: `{"status":{"nodeInfo":{"kubeletVersion":"v0"}}}`, want: only},
		"a label by way of the status":      {patch: `{"metadata":{"labels":{"pool":"cpu"}}}`, want: only},
		"an annotation by way of it":        {patch: `{"metadata":{"annotations":{"a":"b"}}}`, want: only},
		"a finalizer by way of it":          {patch: `{"metadata":{"finalizers":["x.example.com/y"]}}`, want: only},
		"a label":                           {main: true, patch: `{"metadata":{"labels":{"pool":"cpu"}}}`, want: other},
		"a taint":                           {main: true, patch: `{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}`, want: other},
		"unschedulable":                     {main: true, patch: `{"spec":{"unschedulable":true}}`, want: other},
		"its token bound to nothing":        {by: unbound, patch: good, want: token},
		"another account, its own node":     {by: stranger, patch: setting("Ready", "False", "KubeletReady")},
		"another account, another node":     {by: stranger, node: f.other, main: true, patch: `{"metadata":{"labels":{"pool":"cpu"}}}`},
		"an administrator":                  {by: f.admin, patch: `{"status":{"capacity":{"nvidia.com/gpu":"8"}}}`},
		"a condition by server-side apply":  {kind: types.ApplyPatchType, patch: `{"apiVersion":"v1","kind":"Node","metadata":{"name":"` + f.own + `"},"status":{"conditions":[{"type":"NvLink","status":"True","reason":"NvLinkIsNotHealthy"}]}}`},
		"Ready by server-side apply":        {kind: types.ApplyPatchType, patch: `{"apiVersion":"v1","kind":"Node","metadata":{"name":"` + f.own + `"},"status":{"conditions":[{"type":"Ready","status":"False","reason":"x"}]}}`, want: conditions + "Ready"},
		"nothing at all, as a real refresh": {patch: `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			by, node, kind := tc.by, tc.node, tc.kind
			if by == nil {
				by = connector
			}
			if node == "" {
				node = f.own
			}
			options := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
			if kind == "" {
				kind = types.StrategicMergePatchType
			}
			if kind == types.ApplyPatchType {
				options.FieldManager, options.Force = "lanyard-connector", new(true)
			}
			sub := []string{"status"}
			if tc.main {
				sub = nil
			}
			_, err := by.CoreV1().Nodes().Patch(t.Context(), node, kind, []byte(tc.patch), options, sub...)
			refusedWith(t, err, tc.want)
			if tc.want != "" && err != nil && !strings.Contains(err.Error(), wire.PolicyNodeStatus) {
				t.Errorf("the refusal does not name the policy: %v", err)
			}
		})
	}
	t.Run("for good", func(t *testing.T) {
		t.Parallel()
		node, err := connector.CoreV1().Nodes().Patch(t.Context(), f.own, types.StrategicMergePatchType, []byte(setting("Written", "True", "WrittenIsNotHealthy")), metav1.PatchOptions{}, "status")
		f.must(err)
		if got := len(node.Status.Conditions); got != 4 {
			t.Errorf("%d conditions, want 4", got)
		}
	})
}

func TestTheConnectorDoesNothingElseToNodes(t *testing.T) {
	t.Parallel()
	f := newFenced(t)
	connector := f.as(wire.AccountSocketConnector, f.own)
	dry := []string{metav1.DryRunAll}
	nodes := connector.CoreV1().Nodes()
	node, err := nodes.Get(t.Context(), f.own, metav1.GetOptions{})
	f.must(err)
	node.ResourceVersion = "" // a controller of the control plane writes it, too
	renamed := node.DeepCopy()
	renamed.Labels["pool"] = "cpu"
	_, err = nodes.Update(t.Context(), renamed, metav1.UpdateOptions{DryRun: dry})
	refusedWith(t, err, "may change no other node")
	_, err = nodes.UpdateStatus(t.Context(), renamed, metav1.UpdateOptions{DryRun: dry})
	refusedWith(t, err, "nothing of a node but status.conditions")
	bare := node.DeepCopy()
	bare.Status.Conditions = nil
	_, err = nodes.UpdateStatus(t.Context(), bare, metav1.UpdateOptions{DryRun: dry})
	refusedWith(t, err, "these conditions")
	_, err = nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "made-up"}}, metav1.CreateOptions{DryRun: dry})
	refusedWith(t, err, "may change no other node")
	refusedWith(t, nodes.Delete(t.Context(), f.own, metav1.DeleteOptions{DryRun: dry}), "may change no other node")
	refusedWith(t, nodes.Delete(t.Context(), f.other, metav1.DeleteOptions{DryRun: dry}), "may change no other node")
	refusedWith(t, nodes.DeleteCollection(t.Context(), metav1.DeleteOptions{DryRun: dry}, metav1.ListOptions{LabelSelector: "pool=gpu"}), "may change no other node")
	raw, _ := connector.CoreV1().RESTClient().Get().Resource("nodes").Name(f.own).SubResource("proxy").Do(t.Context()).Raw()
	if !strings.Contains(string(raw), "may change no other node") {
		t.Errorf("the kubelet's API by way of the API server: %s", raw)
	}
}

func TestTheConnectorsEvents(t *testing.T) {
	t.Parallel()
	f := newFenced(t)
	connector, unbound, stranger := f.as(wire.AccountSocketConnector, f.own), f.as(wire.AccountSocketConnector, ""), f.as("monitor", f.own)
	about := func(kind, name string) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "lanyard-", Namespace: metav1.NamespaceDefault}, Type: corev1.EventTypeWarning, Reason: "GpuXid",
			InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name, APIVersion: "v1"},
		}
	}
	for name, tc := range map[string]struct {
		by    *kubernetes.Clientset
		event *corev1.Event
		want  string
	}{
		"of its own node":             {by: connector, event: about("Node", f.own)},
		"of another node":             {by: connector, event: about("Node", f.other), want: "about nothing else"},
		"of something else":           {by: connector, event: about("ConfigMap", f.own), want: "about nothing else"},
		"by a token bound to nothing": {by: unbound, event: about("Node", f.own), want: "does not name the one node"},
		"by somebody else":            {by: stranger, event: about("Node", f.other)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := tc.by.CoreV1().Events(metav1.NamespaceDefault).Create(t.Context(), tc.event, metav1.CreateOptions{})
			refusedWith(t, err, tc.want)
		})
	}
	t.Run("an event counted once more, and turned on another node", func(t *testing.T) {
		t.Parallel()
		events := connector.CoreV1().Events(metav1.NamespaceDefault)
		event, err := events.Create(t.Context(), about("Node", f.own), metav1.CreateOptions{})
		f.must(err)
		_, err = events.Patch(t.Context(), event.Name, types.MergePatchType, []byte(`{"count":2}`), metav1.PatchOptions{})
		refusedWith(t, err, "")
		_, err = events.Patch(t.Context(), event.Name, types.MergePatchType, []byte(`{"involvedObject":{"name":"`+f.other+`"}}`), metav1.PatchOptions{})
		refusedWith(t, err, "about nothing else")
	})
	t.Run("by way of the newer API", func(t *testing.T) {
		t.Parallel()
		for node, want := range map[string]string{f.own: "", f.other: "about nothing else"} {
			refusedWith(t, f.newEvent(connector, node), want)
		}
	})
}

// newEvent makes an event through events.k8s.io, which is the same storage under other field names.
func (f *fenced) newEvent(by *kubernetes.Clientset, node string) error {
	f.t.Helper()
	_, err := by.EventsV1().Events(metav1.NamespaceDefault).Create(f.t.Context(), &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "lanyard-", Namespace: metav1.NamespaceDefault}, EventTime: metav1.NowMicro(), Type: corev1.EventTypeWarning, Reason: "GpuXid", Action: "Report",
		ReportingController: "lanyard.dev/connector", ReportingInstance: "connector", Regarding: corev1.ObjectReference{Kind: "Node", Name: node, APIVersion: "v1"},
	}, metav1.CreateOptions{})
	return err
}
