//go:build unix

package chart

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lanyard-k8s/lanyard/test/cluster"
)

var (
	pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	jobs        = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

const stampedByAlice = "annotations: {lanyard.dev/created-by: alice}"

func podText(namespace, metadata, container, spec string) string {
	return "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: " + namespace + ", " + metadata + "}, spec: {" + spec +
		" containers: [{name: main, image: i, " + container + "}]}}"
}

func podProjecting(namespace, account, audience, metadata string) string {
	return podText(namespace, metadata, "", "serviceAccountName: "+account+", volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t, audience: "+audience+"}}]}}],")
}

func jobText(name, metadata, env string) string {
	return "{apiVersion: batch/v1, kind: Job, metadata: {name: " + name + ", namespace: managed, " + metadata + "}, spec: {suspend: true, template: {spec: " +
		"{restartPolicy: Never, containers: [{name: trainer, image: i, env: [" + env + "]}]}}}}"
}

func TestCreateOnARealAPIServer(t *testing.T) {
	t.Parallel()
	cp := live(t)
	alice := client(t, cp, "alice")
	account := client(t, cp, "system:serviceaccount:plain:monitor", "system:serviceaccounts")
	const accounts = "annotations: {'lanyard.dev/created-by': 'system:serviceaccount:plain:monitor'}"
	for name, tc := range map[string]struct {
		object string
		sub    []string
		as     string // "account", else alice
		want   string // a part of the refusal; empty: let through
	}{
		"an ordinary pod":                        {object: podText("plain", "", "", "")},
		"reserved names elsewhere are free":      {object: podText("plain", "", "env: [{name: NMP_PRINCIPAL, value: x}]", "")},
		"a namespace with our label":             {object: "{apiVersion: v1, kind: Namespace, metadata: {name: fresh, labels: {lanyard.dev/jobs: managed}}}", want: "platform admins only"},
		"a namespace without":                    {object: "{apiVersion: v1, kind: Namespace, metadata: {name: fresh}}"},
		"a stranger with the publishers' token":  {object: podProjecting("plain", "monitor", "platform-connector.nvsentinel.nvidia.com", ""), want: "plain/monitor"},
		"a listed publisher":                     {object: podProjecting("gpu", "monitor", "platform-connector.nvsentinel.nvidia.com", "")},
		"a labelled publisher":                   {object: podProjecting("offered", "default", "platform-connector.nvsentinel.nvidia.com", "labels: {lanyard.dev/role: publisher}")},
		"a label where no role is offered":       {object: podProjecting("plain", "default", "platform-connector.nvsentinel.nvidia.com", "labels: {lanyard.dev/role: publisher}"), want: "plain/default"},
		"our connector":                          {object: podProjecting(Namespace, "lanyard-connector", "platform-connector.nvsentinel.nvidia.com", "")},
		"a stranger with a job's token":          {object: podProjecting("plain", "default", "nemo-platform", ""), want: "only pods of managed jobs"},
		"a bare pod in a managed namespace":      {object: podProjecting("managed", "default", "nemo-platform", stampedByAlice)},
		"a token request for jobs":               {object: tokenRequest("nemo-platform"), sub: []string{"token"}, want: "handed out in no other way"},
		"another token request":                  {object: tokenRequest("vault"), sub: []string{"token"}},
		"a forged injected label":                {object: podText("plain", "labels: {lanyard.dev/injected: job}", "", ""), want: "beside the token volume"},
		"another's stamp in any namespace":       {object: podText("plain", "annotations: {lanyard.dev/created-by: bob}", "", ""), want: "names somebody else"},
		"an unstamped pod":                       {object: podText("managed", "", "", ""), want: "Your manifest is fine"},
		"an unstamped Job":                       {object: jobText("j", "", ""), want: "Your manifest is fine"},
		"a stamped Job":                          {object: jobText("j", stampedByAlice, "")},
		"another's Job":                          {object: jobText("j", "annotations: {lanyard.dev/created-by: bob}", ""), want: "names somebody else"},
		"an account's Job":                       {object: jobText("j", accounts, ""), as: "account", want: "Three ways out"},
		"an account's pod that opted out":        {object: podText("managed", accounts+", labels: {lanyard.dev/role: none}", "", ""), as: "account"},
		"a reserved name":                        {object: podText("managed", stampedByAlice, "env: [{name: NMP_PRINCIPAL, value: x}]", ""), want: "spec.containers[main].env[NMP_PRINCIPAL]"},
		"a reserved name in a Job":               {object: jobText("j", stampedByAlice, "{name: NEMO_WORKLOAD_TOKEN, value: x}"), want: "spec.template.spec.containers[trainer].env[NEMO_WORKLOAD_TOKEN]"},
		"an empty entry":                         {object: podText("managed", stampedByAlice, "env: [{name: NMP_PRINCIPAL, value: ''}]", "")},
		"an envFrom prefix":                      {object: podText("managed", stampedByAlice, "envFrom: [{prefix: NMP_, configMapRef: {name: x}}]", ""), want: "envFrom[NMP_]"},
		"a mirror annotation does not help":      {object: podText("managed", "annotations: {lanyard.dev/created-by: alice, kubernetes.io/config.mirror: x}", "env: [{name: NMP_PRINCIPAL, value: x}]", "nodeName: node1, automountServiceAccountToken: false,"), want: "NMP_PRINCIPAL"},
		"a Binding with a stamp":                 {object: "{apiVersion: v1, kind: Binding, metadata: {name: p, namespace: plain, annotations: {lanyard.dev/created-by: bob}}, target: {kind: Node, name: node1}}", sub: []string{"binding"}, want: "copied onto its pod"},
		"a Binding with a Job's adoption label":  {object: "{apiVersion: v1, kind: Binding, metadata: {name: p, namespace: plain, labels: {controller-uid: x}}, target: {kind: Node, name: node1}}", sub: []string{"binding"}, want: "copied onto its pod"},
		"a role without the right only warns":    {object: podText("plain", "labels: {lanyard.dev/role: publisher}", "", "")},
		"a namespace labelled by someone else's": {object: "{apiVersion: v1, kind: Namespace, metadata: {name: fresh, labels: {team: a}}}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := alice
			if tc.as == "account" {
				c = account
			}
			refusedWith(t, create(t, c, tc.object, dryRun, tc.sub...), tc.want)
		})
	}
}

func tokenRequest(audience string) string {
	return "{apiVersion: authentication.k8s.io/v1, kind: TokenRequest, metadata: {name: monitor, namespace: gpu}, spec: {audiences: [" + audience + "]}}"
}

func TestUpdateOnARealAPIServer(t *testing.T) {
	t.Parallel()
	cp := live(t)
	alice, root := client(t, cp, "alice"), client(t, cp, cluster.Admin, "system:masters")
	mustCreate(t, alice, strings.Replace(podText("plain", "", "", ""), "name: p,", "name: unstamped,", 1))
	mustCreate(t, alice, jobText("kept", stampedByAlice, ""))
	mustCreate(t, alice, strings.Replace(podText("managed", stampedByAlice, "", ""), "name: p,", "name: debugged,", 1))
	stamp := func(v string) string { return `{"metadata":{"annotations":{"lanyard.dev/created-by":` + v + `}}}` }
	label := func(key, v string) string { return `{"metadata":{"labels":{"` + key + `":` + v + `}}}` }
	debugger := func(env string) string {
		return `{"spec":{"ephemeralContainers":[{"name":"d","image":"i","env":[` + env + `]}]}}`
	}
	for name, tc := range map[string]struct {
		gvr             schema.GroupVersionResource
		namespace, name string
		body            string
		sub             []string
		root            bool
		want            string
	}{
		"a namespace's label":               {gvr: namespaces, name: "plain", body: label("lanyard.dev/jobs", `"managed"`), want: "platform admins only"},
		"a namespace's label by status":     {gvr: namespaces, name: "plain", body: label("lanyard.dev/jobs", `"managed"`), sub: []string{"status"}, want: "platform admins only"},
		"a namespace's label removed":       {gvr: namespaces, name: "managed", body: label("lanyard.dev/jobs", `null`), want: "platform admins only"},
		"a namespace's other label":         {gvr: namespaces, name: "managed", body: label("team", `"a"`)},
		"a stamp added":                     {gvr: pods, namespace: "plain", name: "unstamped", body: stamp(`"alice"`), want: "never added, changed or removed"},
		"a stamp added by status":           {gvr: pods, namespace: "plain", name: "unstamped", body: stamp(`"alice"`), sub: []string{"status"}, want: "never added, changed or removed"},
		"an injected label added by status": {gvr: pods, namespace: "plain", name: "unstamped", body: label("lanyard.dev/injected", `"job"`), sub: []string{"status"}, want: "never set, changed or removed"},
		"a Job's stamp changed":             {gvr: jobs, namespace: "managed", name: "kept", body: stamp(`"bob"`), want: "never added, changed or removed"},
		"a Job's stamp changed by status":   {gvr: jobs, namespace: "managed", name: "kept", body: stamp(`"bob"`), sub: []string{"status"}, want: "never added, changed or removed"},
		"a Job's stamp removed":             {gvr: jobs, namespace: "managed", name: "kept", body: stamp(`null`), want: "never"},
		"a Job resumed":                     {gvr: jobs, namespace: "managed", name: "kept", body: `{"spec":{"parallelism":2}}`},
		"a debug container":                 {gvr: pods, namespace: "managed", name: "debugged", body: debugger(""), sub: []string{"ephemeralcontainers"}, want: "added by platform admins only"},
		"an admin's debug container":        {gvr: pods, namespace: "managed", name: "debugged", body: debugger(""), sub: []string{"ephemeralcontainers"}, root: true},
		"a debug container with a name of ours": {gvr: pods, namespace: "managed", name: "debugged", body: debugger(`{"name":"NMP_PRINCIPAL","value":"x"}`), sub: []string{"ephemeralcontainers"}, root: true,
			want: "spec.ephemeralContainers[d].env[NMP_PRINCIPAL]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := alice
			if tc.root {
				c = root
			}
			refusedWith(t, patch(t, c, tc.gvr, tc.namespace, tc.name, tc.body, tc.sub...), tc.want)
		})
	}
}

func refusedWith(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && err == nil:
		t.Errorf("let through; want a refusal that says %q", want)
	case want != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want)):
		t.Errorf("want a refusal that says %q, have: %v", want, err)
	}
}
