package policy

import "testing"

func TestJobTemplates(t *testing.T) {
	t.Parallel()
	s := trainers()
	s.Kinds = append(s.Kinds, Kind{Group: "y.example.com", Kind: "Plain", PodCreators: []string{trainOperator}})
	s.Kinds = append(s.Kinds, Kind{Group: "z.example.com", Kind: "Typo", PodCreators: []string{trainOperator}})
	s.TemplatePaths = append(s.TemplatePaths, "z.example.com/Typo:spec.replicaSpec", "z.example.com/Typo:spec.heads.main.template")
	v := named(t, s, JobTemplates)
	job := func(spec, template string) string {
		return "{apiVersion: batch/v1, kind: Job, metadata: {name: j, uid: u, annotations: {" + by("alice") + "}}, spec: {" + spec + "template: {" + template + "}}}"
	}
	unstamped := func(template string) string {
		return "{apiVersion: batch/v1, kind: Job, metadata: {name: j, uid: u}, spec: {template: {" + template + "}}}"
	}
	cron := func(spec, template string) string {
		return "{apiVersion: batch/v1, kind: CronJob, metadata: {name: c, uid: c, annotations: {" + by("alice") + "}}, spec: {" + spec + "jobTemplate: {" + template + "}}}"
	}
	custom := func(kind, spec string) string {
		return "{apiVersion: " + map[string]string{"Trainer": "x", "Plain": "y", "Typo": "z"}[kind] + ".example.com/v1, kind: " + kind + ", metadata: {annotations: {" + by("alice") + "}}, spec: {" + spec + "}}"
	}
	const one, other = "spec: {containers: [{name: c, image: a}]}", "spec: {containers: [{name: c, image: b}]}"
	const kueue = "system:serviceaccount:kueue-system:kueue-controller-manager"
	const alone, manual, uid = "alice, who alone may change", "spec.manualSelector lets", "another Job's controller-uid"
	for name, tc := range map[string]struct {
		q    question
		want string
	}{
		"the creator changes the template":             {q: question{object: job("", other), old: job("", one)}},
		"another changes the template":                 {q: question{object: job("", other), old: job("", one), user: "bob"}, want: alone},
		"another changes the template's metadata":      {q: question{object: job("", "metadata: {labels: {lanyard.dev/role: none}}, "+one), old: job("", one), user: "bob"}, want: alone},
		"a template editor does":                       {q: question{object: job("", other), old: job("", one), user: kueue}},
		"a platform admin does":                        {q: question{object: job("", other), old: job("", one), user: "bob", admin: true}},
		"the job controller does":                      {q: question{object: job("", other), old: job("", one), user: jobController}, want: alone},
		"another suspends and scales":                  {q: question{object: job("suspend: true, parallelism: 3, ", one), old: job("", one), user: "bob"}},
		"another re-applies":                           {q: question{object: job("", one), old: job("", one), user: "bob"}},
		"the job controller finishes it":               {q: question{resource: "jobs/status", object: job("", one), old: job("", one), user: jobController}},
		"a job without a stamp, by anybody":            {q: question{object: unstamped(other), old: unstamped(one)}, want: "act for nobody"},
		"a job without a stamp stays as it is":         {q: question{object: unstamped(one), old: unstamped(one)}},
		"nobody and an empty stamp":                    {q: question{object: unstamped(other), old: unstamped(one), user: "bob", admin: true}},
		"a new job":                                    {q: question{object: job("", one)}},
		"a new job that selects by hand":               {q: question{object: job("manualSelector: true, ", one)}, want: manual},
		"a new job that says it does not":              {q: question{object: job("manualSelector: false, ", one)}},
		"one by an admin":                              {q: question{object: job("manualSelector: true, ", one), admin: true}, want: manual},
		"a job that comes to select by hand":           {q: question{object: job("manualSelector: true, ", one), old: job("", one)}, want: manual},
		"a job that did before":                        {q: question{object: job("manualSelector: true, suspend: true, ", one), old: job("manualSelector: true, ", one)}},
		"a CronJob whose jobs select by hand":          {q: question{object: cron("", "spec: {manualSelector: true}")}, want: manual},
		"a template with the job's own UID":            {q: question{object: job("", "metadata: {labels: {controller-uid: u, batch.kubernetes.io/controller-uid: u, job-name: j}}")}},
		"a template with another's UID":                {q: question{object: job("", "metadata: {labels: {controller-uid: v}}")}, want: uid},
		"a template that gets another's UID":           {q: question{object: job("", "metadata: {labels: {controller-uid: v}}"), old: job("", "metadata: {labels: {controller-uid: u}}")}, want: uid},
		"a template that had another's UID":            {q: question{object: job("suspend: true, ", "metadata: {labels: {controller-uid: v}}"), old: job("", "metadata: {labels: {controller-uid: v}}")}},
		"a CronJob whose jobs bear a UID":              {q: question{object: cron("", "spec: {template: {metadata: {labels: {controller-uid: v}}}}")}, want: uid},
		"another changes a CronJob's schedule":         {q: question{object: cron("schedule: x, suspend: true, ", one), old: cron("schedule: y, ", one), user: "bob"}},
		"another changes a CronJob's job template":     {q: question{object: cron("", "metadata: {labels: {a: b}}, "+one), old: cron("", one), user: "bob"}, want: "this CronJob act for alice"},
		"its creator does":                             {q: question{object: cron("", "metadata: {labels: {a: b}}, "+one), old: cron("", one)}},
		"a custom kind outside its paths":              {q: question{object: custom("Trainer", "workers: {replicas: 3, template: {a: 1}}, head: [1], more: 1"), old: custom("Trainer", "workers: {replicas: 1, template: {a: 1}}, head: [1]"), user: "bob"}},
		"a custom kind within its first path":          {q: question{object: custom("Trainer", "workers: {template: {a: 2}}, head: [1]"), old: custom("Trainer", "workers: {template: {a: 1}}, head: [1]"), user: "bob"}, want: alone},
		"a custom kind within its second path":         {q: question{object: custom("Trainer", "workers: {template: {a: 1}}, head: [2]"), old: custom("Trainer", "workers: {template: {a: 1}}, head: [1]"), user: "bob"}, want: alone},
		"a custom kind that loses a path":              {q: question{object: custom("Trainer", "head: [1]"), old: custom("Trainer", "workers: {template: {a: 1}}, head: [1]"), user: "bob"}, want: alone},
		"a custom kind without paths is guarded whole": {q: question{object: custom("Plain", "replicas: 2, suspend: true"), old: custom("Plain", "replicas: 1"), user: "bob"}, want: alone},
		"a custom kind that loses a key":               {q: question{object: custom("Plain", ""), old: custom("Plain", "replicas: 1"), user: "bob"}, want: alone},
		"a custom kind without paths is suspended":     {q: question{object: custom("Plain", "replicas: 1, suspend: true"), old: custom("Plain", "replicas: 1"), user: "bob"}},
		"a custom kind whose template is a word":       {q: question{object: custom("Plain", "template: big"), old: custom("Plain", "template: big"), user: "bob"}},
		"a custom kind whose paths are misspelt":       {q: question{object: custom("Typo", "replicaSpecs: {a: 2}"), old: custom("Typo", "replicaSpecs: {a: 1}"), user: "bob"}, want: alone},
		"one with a part of a path":                    {q: question{object: custom("Typo", "heads: {main: 2}, a: 2"), old: custom("Typo", "heads: {}, a: 1"), user: "bob"}, want: alone},
		"one that its creator changes":                 {q: question{object: custom("Typo", "replicaSpecs: {a: 2}"), old: custom("Typo", "replicaSpecs: {a: 1}")}},
		"one that is re-applied and suspended":         {q: question{object: custom("Typo", "replicaSpecs: {a: 1}, suspend: true"), old: custom("Typo", "replicaSpecs: {a: 1}"), user: "bob"}},
		"one whose path turns up":                      {q: question{object: custom("Typo", "replicaSpec: {}"), old: custom("Typo", ""), user: "bob"}, want: alone},
		"one whose path is there, and empty":           {q: question{object: custom("Typo", "replicaSpec: {}, replicas: 2"), old: custom("Typo", "replicaSpec: {}, replicas: 1"), user: "bob"}},
		"another served version of a custom kind":      {q: question{object: custom("Trainer", "groups: [{template: {a: 2}}]"), old: custom("Trainer", "groups: [{template: {a: 1}}]"), user: "bob"}, want: alone},
		"a pod is none of its business":                {q: question{object: podOf("labels: {a: b}"), old: podOf(""), user: "bob"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, ask(t, v, tc.q), tc.want)
		})
	}
}
