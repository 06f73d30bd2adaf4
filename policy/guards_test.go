package policy

import "testing"

const (
	publisherAudience = "platform-connector.nvsentinel.nvidia.com"
	jobAudience       = "nemo-platform"
)

// projecting is a pod whose volume v asks for a token of the audience in its second source.
func projecting(audience, metadata, spec string) string {
	return "{apiVersion: v1, kind: Pod, metadata: {" + metadata + "}, spec: {" + spec + " containers: [{name: c}], volumes: [" +
		"{name: other, emptyDir: {}}, {name: v, projected: {sources: [{configMap: {name: x}}, {serviceAccountToken: {path: t}}, " +
		"{serviceAccountToken: {path: t, audience: " + audience + "}}]}}]}}"
}

func ownedBy(apiVersion, kind string) string {
	return "ownerReferences: [{apiVersion: " + apiVersion + ", kind: " + kind + ", name: x, controller: true}]"
}

func TestProtectedAudiences(t *testing.T) {
	t.Parallel()
	v := named(t, defaults(), ProtectedAudience)
	for name, tc := range map[string]struct {
		q    question
		want string
	}{
		"other audiences are free":               {q: question{object: projecting("vault", "", "")}},
		"no volumes":                             {q: question{object: "{apiVersion: v1, kind: Pod, spec: {containers: []}}"}},
		"a publisher's token for anybody":        {q: question{object: projecting(publisherAudience, "", "")}, want: "team/default"},
		"a listed publisher":                     {q: question{in: "gpu", object: projecting(publisherAudience, "", "serviceAccountName: monitor,")}},
		"the list means the request's namespace": {q: question{object: projecting(publisherAudience, "namespace: gpu", "serviceAccountName: monitor,")}, want: "team/monitor"},
		"a labelled publisher":                   {q: question{namespace: publisherNamespace(), object: projecting(publisherAudience, "labels: {lanyard.dev/role: publisher}", "")}},
		"a label where the role is not offered":  {q: question{object: projecting(publisherAudience, "labels: {lanyard.dev/role: publisher}", "")}, want: "neither is"},
		"the role's namespace without a label":   {q: question{namespace: publisherNamespace(), object: projecting(publisherAudience, "", "")}, want: "neither is"},
		"a cross-node publisher":                 {q: question{in: "lanyard", object: projecting(publisherAudience, "", "serviceAccountName: csp-health-monitor,")}},
		"Lanyard's own connector":                {q: question{in: "lanyard", object: projecting(publisherAudience, "", "serviceAccountName: lanyard-connector,")}},
		"a job's token for anybody":              {q: question{object: projecting(jobAudience, "", "")}, want: "only pods of managed jobs"},
		"a job's token for a publisher":          {q: question{in: "gpu", object: projecting(jobAudience, "", "serviceAccountName: monitor,")}, want: "only pods of managed jobs"},
		"a bare pod in a managed namespace":      {q: question{namespace: managedNamespace(), object: projecting(jobAudience, "", "")}},
		"a Job's pod":                            {q: question{namespace: managedNamespace(), object: projecting(jobAudience, ownedBy("batch/v1", "Job"), "")}},
		"a namespace that is never managed":      {q: question{in: "kube-system", namespace: managedNamespace(), object: projecting(jobAudience, "", "")}, want: "only pods of managed jobs"},
		"a pod that opted out":                   {q: question{namespace: managedNamespace(), object: projecting(jobAudience, "labels: {lanyard.dev/role: none}", "")}, want: "only pods of managed jobs"},
		"a ReplicaSet's pod":                     {q: question{namespace: managedNamespace(), object: projecting(jobAudience, ownedBy("apps/v1", "ReplicaSet"), "")}, want: "only pods of managed jobs"},
		"a Job of another group":                 {q: question{namespace: managedNamespace(), object: projecting(jobAudience, ownedBy("batch.volcano.sh/v1", "Job"), "")}, want: "only pods of managed jobs"},
		"a core controller's pod":                {q: question{namespace: managedNamespace(), object: projecting(jobAudience, ownedBy("v1", "ReplicationController"), "")}, want: "only pods of managed jobs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, ask(t, v, tc.q), tc.want)
		})
	}
}

func TestARoleThatIsOffProtectsNothing(t *testing.T) {
	t.Parallel()
	s := defaults()
	s.PublisherAudience = ""
	v := named(t, s, ProtectedAudience)
	// The pod's ordinary token names no audience, which an empty setting must not match.
	expect(t, ask(t, v, question{namespace: managedNamespace(), object: projecting(jobAudience, "", "")}), "")
	expect(t, ask(t, v, question{object: projecting(publisherAudience, "", "")}), "")
	expect(t, ask(t, named(t, s, InjectedLabel), question{object: injected("publisher", "platform-connector-token", "''")}), "beside the token volume")
	expect(t, ask(t, named(t, defaults(), InjectedLabel), question{object: injected("job", "other", jobAudience)}), "another admission webhook removed the volume")
}

func TestTokenRequests(t *testing.T) {
	t.Parallel()
	v := named(t, defaults(), TokenRequests)
	request := func(audiences string) string {
		return "{apiVersion: authentication.k8s.io/v1, kind: TokenRequest, spec: {audiences: " + audiences + "}}"
	}
	for name, tc := range map[string]struct {
		q    question
		want string
	}{
		"other audiences":         {q: question{object: request("[vault]")}},
		"the API server's own":    {q: question{object: "{apiVersion: authentication.k8s.io/v1, kind: TokenRequest, spec: {}}"}},
		"the publishers'":         {q: question{object: request("[" + publisherAudience + "]")}, want: "handed out in no other way"},
		"the jobs', second":       {q: question{object: request("[vault, " + jobAudience + "]"), admin: true}, want: "handed out in no other way"},
		"a kubelet":               {q: question{object: request("[" + jobAudience + "]"), groups: []string{"system:nodes"}}},
		"a listed identity":       {q: question{object: request("[" + jobAudience + "]"), user: "system:serviceaccount:tools:minter"}},
		"an account that is like": {q: question{object: request("[" + jobAudience + "]"), user: "system:serviceaccount:tools:minter2"}, want: "handed out in no other way"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.q.resource = "serviceaccounts/token"
			expect(t, ask(t, v, tc.q), tc.want)
		})
	}
}

func TestNamespaceLabels(t *testing.T) {
	t.Parallel()
	v := named(t, defaults(), NamespaceLabels)
	ns := func(labels string) string {
		return "{apiVersion: v1, kind: Namespace, metadata: {name: n, labels: {" + labels + "}}}"
	}
	plain := "{apiVersion: v1, kind: Namespace, metadata: {name: n}}"
	for name, tc := range map[string]struct {
		q    question
		want string
	}{
		"a plain namespace":               {q: question{object: plain}},
		"created with a label":            {q: question{object: ns("lanyard.dev/jobs: managed")}, want: "namespace label lanyard.dev/jobs"},
		"by an admin":                     {q: question{object: ns("lanyard.dev/jobs: managed"), admin: true}},
		"set":                             {q: question{object: ns("lanyard.dev/anything: x"), old: plain}, want: "lanyard.dev/anything"},
		"changed":                         {q: question{object: ns("lanyard.dev/jobs: x"), old: ns("lanyard.dev/jobs: y")}, want: "lanyard.dev/jobs"},
		"emptied":                         {q: question{object: ns("lanyard.dev/jobs: ''"), old: plain}, want: "lanyard.dev/jobs"},
		"removed":                         {q: question{object: plain, old: ns("lanyard.dev/jobs: managed")}, want: "lanyard.dev/jobs"},
		"removed by an admin":             {q: question{object: plain, old: ns("lanyard.dev/jobs: managed"), admin: true}},
		"another label beside it":         {q: question{object: ns("lanyard.dev/jobs: managed, a: b"), old: ns("lanyard.dev/jobs: managed")}},
		"another's key that looks like":   {q: question{object: ns("mylanyard.dev/jobs: managed")}},
		"through status":                  {q: question{resource: "namespaces/status", object: ns("lanyard.dev/jobs: managed"), old: plain}, want: "lanyard.dev/jobs"},
		"finalized by the garbage's hand": {q: question{resource: "namespaces/finalize", object: ns("lanyard.dev/jobs: managed"), old: ns("lanyard.dev/jobs: managed"), user: "system:serviceaccount:kube-system:namespace-controller"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, ask(t, v, tc.q), tc.want)
		})
	}
}

// injected is a pod with the label and one volume.
func injected(label, volume, audience string) string {
	return "{apiVersion: v1, kind: Pod, metadata: {labels: {lanyard.dev/injected: '" + label + "'}}, spec: {containers: [{name: c}], volumes: [" +
		"{name: " + volume + ", projected: {sources: [{serviceAccountToken: {path: token, audience: " + audience + "}}]}}]}}"
}

func TestInjectedLabel(t *testing.T) {
	t.Parallel()
	v := named(t, defaults(), InjectedLabel)
	publisher := injected("publisher", "platform-connector-token", publisherAudience)
	for name, tc := range map[string]struct {
		q    question
		want string
	}{
		"no label":                {q: question{object: podWith("")}},
		"beside its volume":       {q: question{object: publisher}},
		"a job's":                 {q: question{object: injected("job", "nmp-workload-identity", jobAudience)}},
		"another's volume":        {q: question{object: injected("publisher", "x", publisherAudience)}, want: "beside the token volume"},
		"another's audience":      {q: question{object: injected("publisher", "platform-connector-token", "x")}, want: "beside the token volume"},
		"both, with one volume":   {q: question{object: injected("publisher.job", "nmp-workload-identity", jobAudience)}, want: "beside the token volume"},
		"an order that is not":    {q: question{object: injected("job.publisher", "nmp-workload-identity", jobAudience)}, want: "beside the token volume"},
		"empty":                   {q: question{object: injected("", "nmp-workload-identity", jobAudience)}, want: "beside the token volume"},
		"added later":             {q: question{object: publisher, old: podWith("")}, want: "never set, changed or removed"},
		"removed later":           {q: question{object: podWith(""), old: publisher}, want: "never set, changed or removed"},
		"changed through status":  {q: question{resource: "pods/status", object: injected("job", "x", "y"), old: publisher}, want: "never set, changed or removed"},
		"kept through an upgrade": {q: question{object: injected("publisher", "x", "old-audience"), old: injected("publisher", "x", "old-audience")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, ask(t, v, tc.q), tc.want)
		})
	}
}

func TestRoleWithoutRight(t *testing.T) {
	t.Parallel()
	v := named(t, defaults(), RoleWithoutRight)
	role := func(r string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {labels: {lanyard.dev/role: " + r + "}}, spec: {containers: [{name: c}], serviceAccountName: monitor}}"
	}
	for name, tc := range map[string]struct {
		q    question
		want string
	}{
		"no role":                         {q: question{object: podWith("")}},
		"where it is offered":             {q: question{object: role("publisher"), namespace: publisherNamespace()}},
		"where it is not":                 {q: question{object: role("publisher")}, want: "gives no token here"},
		"a listed publisher all the same": {q: question{in: "gpu", object: role("publisher")}},
		"none":                            {q: question{object: role("none")}},
		"an unknown word":                 {q: question{object: role("boss")}, want: "neither publisher nor none"},
		"in a Deployment's template": {
			q:    question{object: "{apiVersion: apps/v1, kind: Deployment, spec: {template: {metadata: {labels: {lanyard.dev/role: publisher}}, spec: {}}}}"},
			want: "gives no token here",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, ask(t, v, tc.q), tc.want)
		})
	}
}
