package policy

import "testing"

// stampedPod is a bare pod with the annotation and labels.
func stampedPod(stamp, labels, more string) string {
	return "{apiVersion: v1, kind: Pod, metadata: {annotations: {" + stamp + "}, labels: {" + labels + "}" + more + "}, spec: {containers: [{name: c}]}}"
}

func by(name string) string { return "lanyard.dev/created-by: '" + name + "'" }

func TestCreatorStamp(t *testing.T) {
	t.Parallel()
	v := named(t, defaults(), CreatorStamp)
	for name, tc := range map[string]struct {
		q    question
		want string
	}{
		"no stamp":                    {q: question{object: stampedPod("", "", "")}},
		"her own name":                {q: question{object: stampedPod(by("alice"), "", "")}},
		"another's name":              {q: question{object: stampedPod(by("bob"), "", "")}, want: "remove it from your manifest"},
		"nobody's name":               {q: question{object: stampedPod(by(""), "", "")}, want: "remove it from your manifest"},
		"a name that differs by case": {q: question{object: stampedPod(by("Alice"), "", "")}, want: "remove it from your manifest"},
		"kept by another":             {q: question{object: stampedPod(by("alice"), "a: b", ""), old: stampedPod(by("alice"), "", ""), user: "bob"}},
		"added later":                 {q: question{object: stampedPod(by("alice"), "", ""), old: stampedPod("", "", "")}, want: "leave it as it is"},
		"added later, empty":          {q: question{object: stampedPod(by(""), "", ""), old: stampedPod("", "", "")}, want: "leave it as it is"},
		"changed":                     {q: question{object: stampedPod(by("alice"), "", ""), old: stampedPod(by("bob"), "", "")}, want: "leave it as it is"},
		"removed":                     {q: question{object: stampedPod("", "", ""), old: stampedPod(by("alice"), "", "")}, want: "leave it as it is"},
		"changed through status":      {q: question{resource: "pods/status", object: stampedPod(by("alice"), "", ""), old: stampedPod(by("bob"), "", "")}, want: "leave it as it is"},
		"on a Job":                    {q: question{object: "{apiVersion: batch/v1, kind: Job, metadata: {annotations: {" + by("bob") + "}}}"}, want: "remove it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, ask(t, v, tc.q), tc.want)
		})
	}
}

func TestCreatorRequired(t *testing.T) {
	t.Parallel()
	v := named(t, defaults(), CreatorRequired)
	const account = "system:serviceaccount:team:app"
	job := func(name, labels string) string {
		return "{apiVersion: batch/v1, kind: Job, metadata: {annotations: {" + by(name) + "}}, spec: {template: {metadata: {labels: {" + labels + "}}}}}"
	}
	cronJob := func(name, labels string) string {
		return "{apiVersion: batch/v1, kind: CronJob, metadata: {annotations: {" + by(name) + "}}, spec: {jobTemplate: {spec: {template: {metadata: {labels: {" + labels + "}}}}}}}"
	}
	owned := ", ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, controller: true}]"
	jobs := ", ownerReferences: [{apiVersion: batch/v1, kind: Job, name: r, controller: true}]"
	const jobController = "system:serviceaccount:kube-system:job-controller"
	mirrored := stampedPod(by("system:node:n")+", kubernetes.io/config.mirror: x", "", "")
	for name, tc := range map[string]struct {
		q    question
		want string
	}{
		"a person's pod":                            {q: question{object: stampedPod(by("alice"), "", "")}},
		"a person's Job":                            {q: question{object: job("alice", "")}},
		"without a stamp":                           {q: question{object: stampedPod("", "", "")}, want: "Your manifest is fine; tell the platform team"},
		"a Job without metadata to speak of":        {q: question{object: "{apiVersion: batch/v1, kind: Job, metadata: {name: j}}"}, want: "Your manifest is fine"},
		"an update of what came before the label":   {q: question{object: stampedPod("", "a: b", ""), old: stampedPod("", "", "")}},
		"an update that removes it":                 {q: question{object: stampedPod("", "", ""), old: stampedPod(by("alice"), "", "")}, want: "never removed"},
		"an account's Job":                          {q: question{object: job(account, ""), user: account}, want: account + " may not submit"},
		"an account's CronJob":                      {q: question{object: cronJob(account, ""), user: account}, want: "Three ways out"},
		"an account's bare pod":                     {q: question{object: stampedPod(by(account), "", ""), user: account}, want: "Three ways out"},
		"a component's bare pod":                    {q: question{object: stampedPod(by("system:admin"), "", ""), user: "system:admin"}, want: "Three ways out"},
		"a component in capitals":                   {q: question{object: stampedPod(by("System:x"), "", ""), user: "System:x"}, want: "Three ways out"},
		"a service:* name":                          {q: question{object: stampedPod(by("service:x"), "", ""), user: "service:x"}, want: "Three ways out"},
		"a listed account":                          {q: question{object: job("system:serviceaccount:ci:runner", ""), user: "system:serviceaccount:ci:runner"}},
		"an account's Job that opted out":           {q: question{object: job(account, "lanyard.dev/role: none"), user: account}},
		"an account's CronJob that opted out":       {q: question{object: cronJob(account, "lanyard.dev/role: none"), user: account}},
		"an account's pod that opted out":           {q: question{object: stampedPod(by(account), "lanyard.dev/role: none", ""), user: account}},
		"an account's controlled pod":               {q: question{object: stampedPod(by(account), "", owned), user: account}},
		"an account's custom kind with a decoy":     {q: question{object: "{apiVersion: x.example.com/v1, kind: Trainer, metadata: {annotations: {" + by(account) + "}}, spec: {template: {metadata: {labels: {lanyard.dev/role: none}}}}}", user: account}, want: account + " may not submit"},
		"an account's pod that says it is a Job's":  {q: question{object: stampedPod(by(account), "", jobs), user: account}, want: account + " may not submit"},
		"a person's pod that says it is a Job's":    {q: question{object: stampedPod(by("alice"), "", jobs)}},
		"the Job controller's pod of a Job":         {q: question{object: stampedPod(by(jobController), "", jobs), user: jobController}},
		"the Job controller's pod":                  {q: question{object: stampedPod(by("system:serviceaccount:kube-system:job-controller"), "", ""), user: "system:serviceaccount:kube-system:job-controller"}},
		"the CronJob controller's Job":              {q: question{object: job("system:serviceaccount:kube-system:cronjob-controller", ""), user: "system:serviceaccount:kube-system:cronjob-controller"}},
		"an account's controlled Job":               {q: question{object: "{apiVersion: batch/v1, kind: Job, metadata: {annotations: {" + by(account) + "}" + owned + "}}", user: account}, want: "Three ways out"},
		"an account's Job that opts in later":       {q: question{object: job(account, ""), old: job(account, "lanyard.dev/role: none"), user: account}, want: account + " may not submit"},
		"an account's CronJob opted in by a person": {q: question{object: cronJob(account, "lanyard.dev/role: publisher"), old: cronJob(account, "lanyard.dev/role: none")}, want: account + " may not submit"},
		"an account's Job that stays opted out":     {q: question{object: job(account, "lanyard.dev/role: none, a: b"), old: job(account, "lanyard.dev/role: none"), user: account}},
		"a person's Job opted in by an account":     {q: question{object: job("alice", ""), old: job("alice", "lanyard.dev/role: none"), user: account}},
		"an account's pod without its label":        {q: question{object: stampedPod(by(account), "", ""), old: stampedPod(by(account), "lanyard.dev/role: none", ""), user: account}},
		"a kubelet's mirror pod":                    {q: question{object: mirrored, user: "system:node:n", groups: []string{"system:nodes"}}},
		"an account that says mirror":               {q: question{object: stampedPod(by(account)+", kubernetes.io/config.mirror: x", "", ""), user: account}, want: "Three ways out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.q.namespace = managedNamespace()
			expect(t, ask(t, v, tc.q), tc.want)
		})
	}
}

func TestBindingMetadata(t *testing.T) {
	t.Parallel()
	v := named(t, defaults(), BindingMetadata)
	binding := func(metadata string) string {
		return "{apiVersion: v1, kind: Binding, metadata: {" + metadata + "}, target: {kind: Node, name: n}}"
	}
	for name, tc := range map[string]struct {
		object string
		want   string
	}{
		"the scheduler's":             {object: binding("name: p")},
		"with labels of its own":      {object: binding("labels: {topology.kubernetes.io/zone: a}, annotations: {x: y}")},
		"with a stamp":                {object: binding("annotations: {lanyard.dev/created-by: bob}"), want: "copied onto its pod"},
		"with an injected label":      {object: binding("labels: {lanyard.dev/injected: job}"), want: "copied onto its pod"},
		"with a Job's adoption label": {object: binding("labels: {controller-uid: u}"), want: "copied onto its pod"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, resource := range []string{"pods/binding", "bindings"} {
				expect(t, ask(t, v, question{object: tc.object, resource: resource}), tc.want)
			}
		})
	}
}
