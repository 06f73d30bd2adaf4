package policy

import (
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

const connectorAccount = "system:serviceaccount:lanyard:lanyard-connector"

// onNode is the extra of a token whose pod runs on the nodes.
func onNode(names ...string) map[string][]string {
	return map[string][]string{wire.ExtraNodeName: names, "authentication.kubernetes.io/pod-uid": {"u"}}
}

// node is node-a with a Ready condition, one of ours, one of another's, and something of its own in every part.
const node = `
apiVersion: v1
kind: Node
metadata:
  name: node-a
  uid: 0b9c
  resourceVersion: "7"
  labels: {pool: gpu}
  annotations: {a: b}
  managedFields: [{manager: kubelet, operation: Update}]
spec: {podCIDR: 10.0.0.0/24, taints: [{key: k, effect: NoSchedule}]}
status:
  capacity: {cpu: "8", nvidia.com/gpu: "4"}
  allocatable: {cpu: "7"}
  nodeInfo: {kernelVersion: "6.1"}
  images: [{names: [a, b], sizeBytes: 7}]
  futureField: {x: 1}
  conditions:
    - {type: Ready, status: "True", reason: KubeletReady}
    - {type: KernelDeadlock, status: "False", reason: KernelHasNoDeadlock}
    - {type: GpuXid, status: "True", reason: GpuXidIsNotHealthy, message: m}
    - {type: Theirs, status: "True", reason: SomebodysWord}
`

// edited is the node with the first text of each pair replaced by the second.
func edited(changes ...string) string {
	text := node
	for i := 0; i+1 < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			panic("no such text: " + changes[i])
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	return text
}

const (
	readyLine  = `    - {type: Ready, status: "True", reason: KubeletReady}` + "\n"
	oursLine   = `    - {type: GpuXid, status: "True", reason: GpuXidIsNotHealthy, message: m}` + "\n"
	theirsLine = `    - {type: Theirs, status: "True", reason: SomebodysWord}` + "\n"
	lastLine   = theirsLine
)

func adding(entry string) string { return edited(lastLine, lastLine+"    - "+entry+"\n") }

func TestNodeStatus(t *testing.T) {
	t.Parallel()
	v := named(t, defaults(), NodeStatus)
	const whoseCondition = "a condition that is the kubelet's" // a message with a newline in it is not used
	const only, whose, conditions, token = "nothing of a node but status.conditions", "may change no other node", "these conditions: ", "does not name the one node"
	for name, tc := range map[string]struct {
		object string
		old    string              // the node if empty
		extra  map[string][]string // of node-a if nil
		sub    string              // nodes/status if empty
		want   string
	}{
		"nothing changes":                      {object: node},
		"a condition of ours is added":         {object: adding(`{type: NvLink, status: "True", reason: NvLinkIsNotHealthy}`)},
		"a condition of ours changes":          {object: edited(oursLine, `    - {type: GpuXid, status: "False", reason: GpuXidIsHealthy, message: x}`+"\n")},
		"a condition of ours is removed":       {object: edited(oursLine, "")},
		"the server's own bookkeeping":         {object: edited(`"7"`, `"8"`, "manager: kubelet", "manager: lanyard")},
		"the first condition of a fresh node":  {old: "{apiVersion: v1, kind: Node, metadata: {name: node-a}}", object: `{apiVersion: v1, kind: Node, metadata: {name: node-a}, status: {conditions: [{type: A, status: "True", reason: AIsNotHealthy}]}}`},
		"a type as long as it may be":          {object: adding(`{type: ` + strings.Repeat("a", 63) + `, status: "True", reason: ` + strings.Repeat("a", 63) + `IsHealthy}`)},
		"a type that is too long":              {object: adding(`{type: ` + strings.Repeat("a", 64) + `, status: "True", reason: ` + strings.Repeat("a", 64) + `IsHealthy}`), want: conditions},
		"a type that begins with a digit":      {object: adding(`{type: 1a, status: "True", reason: 1aIsHealthy}`), want: conditions},
		"a type with a slash":                  {object: adding(`{type: a/b, status: "True", reason: a/bIsHealthy}`), want: conditions},
		"a type with a line after it":          {object: adding(`{type: "a\nb", status: "True", reason: "a\nbIsHealthy"}`), want: whoseCondition},
		"a type that ends in a newline":        {object: adding(`{type: "a\n", status: "True", reason: "a\nIsHealthy"}`), want: whoseCondition},
		"Ready changes":                        {object: edited(readyLine, `    - {type: Ready, status: "False", reason: KubeletReady}`+"\n"), want: conditions + "Ready"},
		"Ready changes under a reason of ours": {object: edited(readyLine, `    - {type: Ready, status: "False", reason: ReadyIsNotHealthy}`+"\n"), want: conditions + "Ready"},
		"Ready is removed":                     {object: edited(readyLine, ""), want: conditions + "Ready"},
		"a second Ready":                       {object: adding(`{type: Ready, status: "False", reason: ReadyIsNotHealthy}`), want: conditions + "Ready"},
		"MemoryPressure is added":              {object: adding(`{type: MemoryPressure, status: "True", reason: MemoryPressureIsNotHealthy}`), want: conditions + "MemoryPressure"},
		"DiskPressure is added":                {object: adding(`{type: DiskPressure, status: "True", reason: DiskPressureIsNotHealthy}`), want: conditions + "DiskPressure"},
		"PIDPressure is added":                 {object: adding(`{type: PIDPressure, status: "True", reason: PIDPressureIsNotHealthy}`), want: conditions + "PIDPressure"},
		"NetworkUnavailable is added":          {object: adding(`{type: NetworkUnavailable, status: "True", reason: NetworkUnavailableIsNotHealthy}`), want: conditions + "NetworkUnavailable"},
		"a foreign type is added":              {object: adding(`{type: Another.Owner, status: "True", reason: Another.OwnerIsNotHealthy}`), want: conditions + "Another.Owner"},
		"a foreign type changes":               {object: edited("KernelHasNoDeadlock", "KernelDeadlockIsHealthy"), want: conditions + "KernelDeadlock"},
		"another's type changes":               {object: edited(theirsLine, `    - {type: Theirs, status: "False", reason: TheirsIsHealthy}`+"\n"), want: conditions + "Theirs"},
		"another's type is removed":            {object: edited(theirsLine, ""), want: conditions + "Theirs"},
		"a reason that is not ours":            {object: adding(`{type: NvLink, status: "True", reason: Broken}`), want: conditions + "NvLink"},
		"no reason":                            {object: adding(`{type: NvLink, status: "True"}`), want: conditions + "NvLink"},
		"one good and one bad":                 {object: edited(lastLine, lastLine+`    - {type: A, reason: AIsHealthy}`+"\n"+`    - {type: B, reason: x}`+"\n"), want: conditions + "A, B"},
		"all conditions vanish":                {object: edited(readyLine, "", oursLine, "", theirsLine, ""), want: conditions},
		"capacity":                             {object: edited(`nvidia.com/gpu: "4"`, `nvidia.com/gpu: "8"`), want: only},
		"allocatable":                          {object: edited(`  allocatable: {cpu: "7"}`+"\n", ""), want: only},
		"a field of later Kubernetes":          {object: edited("{x: 1}", "{x: 2}"), want: only},
		"a field more":                         {object: edited("  capacity:", "  phase: Running\n  capacity:"), want: only},
		"the whole status":                     {object: node[:strings.Index(node, "status:")], want: only},
		"a label":                              {object: edited("pool: gpu", "pool: cpu"), want: only},
		"a label removed":                      {object: edited("  labels: {pool: gpu}\n", ""), want: only},
		"an annotation":                        {object: edited("{a: b}", "{a: b, c: d}"), want: only},
		"a finalizer":                          {object: edited("  uid:", "  finalizers: [x/y]\n  uid:"), want: only},
		"an owner":                             {object: edited("  uid:", "  ownerReferences: [{kind: X, name: y}]\n  uid:"), want: only},
		"a taint":                              {object: edited("NoSchedule", "NoExecute"), want: only},
		"another node":                         {object: edited("node-a", "node-b"), old: edited("node-a", "node-b"), want: "on node node-a may change no other"},
		"a name that is like ours":             {object: node, extra: onNode("node-a2"), want: whose},
		"a node's name in capitals":            {object: node, extra: onNode("Node-A"), want: whose},
		"a token of no node":                   {object: node, extra: map[string][]string{}, want: token},
		"a token of two nodes":                 {object: node, extra: onNode("node-a", "node-b"), want: token},
		"a token of an empty name":             {object: node, extra: onNode(""), want: token},
		"a token of no value":                  {object: node, extra: map[string][]string{wire.ExtraNodeName: {}}, want: token},
		"the node itself":                      {object: node, sub: "nodes", want: whose},
		"the node's proxy":                     {object: node, sub: "nodes/proxy", want: whose},
		"what comes after status":              {object: node, sub: "nodes/status2", want: whose},
		"the node's removal":                   {object: "", sub: "nodes", want: whose},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := question{user: connectorAccount, extra: tc.extra, object: tc.object, old: tc.old, resource: tc.sub}
			if q.extra == nil {
				q.extra = onNode("node-a")
			}
			if q.resource == "" {
				q.resource = "nodes/status"
			}
			if q.old == "" {
				q.old = node
			}
			expect(t, ask(t, v, q), tc.want)
			q.user, q.extra = "system:node:node-a", nil // nobody else is asked
			expect(t, ask(t, v, q), "")
		})
	}
	expect(t, ask(t, v, question{user: connectorAccount, extra: onNode("node-a"), object: node}), whose) // created
	for _, stranger := range []string{connectorAccount + "-deployment", "system:serviceaccount:other:lanyard-connector", ""} {
		expect(t, ask(t, v, question{user: stranger, object: edited("8", "9"), old: node, resource: "nodes/status"}), "")
	}
}

func TestNodeEvents(t *testing.T) {
	t.Parallel()
	v := named(t, defaults(), NodeStatus)
	about := func(object string) string {
		return "{apiVersion: v1, kind: Event, metadata: {name: e, namespace: default}, involvedObject: {" + object + "}}"
	}
	own := about("kind: Node, name: node-a, apiVersion: v1")
	const refusal = "about nothing else"
	for name, tc := range map[string]struct {
		object, old string
		extra       map[string][]string
		want        string
	}{
		"of its own node":                   {object: own},
		"without an API version":            {object: about("kind: Node, name: node-a")},
		"counted once more":                 {object: own, old: own},
		"of another node":                   {object: about("kind: Node, name: node-b, apiVersion: v1"), want: refusal},
		"of a pod of the node's name":       {object: about("kind: Pod, name: node-a, apiVersion: v1"), want: refusal},
		"of another group's Node":           {object: about("kind: Node, name: node-a, apiVersion: example.com/v1"), want: refusal},
		"of nothing":                        {object: about(""), want: refusal},
		"another's event is taken over":     {object: own, old: about("kind: Pod, name: p"), want: refusal},
		"its own event turned on another":   {object: about("kind: Node, name: node-b"), old: own, want: refusal},
		"by a token of no node":             {object: own, extra: map[string][]string{}, want: "does not name the one node"},
		"by a token of two nodes":           {object: own, extra: onNode("node-a", "node-b"), want: "does not name the one node"},
		"without the field, by no node":     {object: "{apiVersion: v1, kind: Event, metadata: {name: e}}", extra: onNode(""), want: "does not name the one node"},
		"without the field, by its account": {object: "{apiVersion: v1, kind: Event, metadata: {name: e}}", want: refusal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := question{user: connectorAccount, extra: tc.extra, object: tc.object, old: tc.old, in: "default"}
			if q.extra == nil {
				q.extra = onNode("node-a")
			}
			expect(t, ask(t, v, q), tc.want)
			q.user = "alice"
			expect(t, ask(t, v, q), "")
		})
	}
}
