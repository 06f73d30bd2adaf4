//go:build unix

package chart

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

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
