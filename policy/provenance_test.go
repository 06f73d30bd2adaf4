package policy

import "testing"

const (
	jobController  = "system:serviceaccount:kube-system:job-controller"
	cronController = "system:serviceaccount:kube-system:cronjob-controller"
	trainOperator  = "system:serviceaccount:train:operator"
)

// trainers are the default settings with a custom kind whose pods another controller creates.
func trainers() Settings {
	s := defaults()
	s.Kinds = append(s.Kinds, Kind{
		Group: "x.example.com", Kind: "Trainer", PodCreators: []string{trainOperator}, AdoptionLabels: []string{"x.example.com/job-name", "x.example.com/rank"},
	})
	return s
}

// controlled is metadata with a controller reference and labels.
func controlled(apiVersion, kind, name, uid, labels string) string {
	return "name: p, ownerReferences: [{apiVersion: " + apiVersion + ", kind: " + kind + ", name: " + name + ", uid: " + uid +
		", controller: true, blockOwnerDeletion: true}], labels: {" + labels + "}"
}

func podOf(metadata string) string {
	return "{apiVersion: v1, kind: Pod, metadata: {" + metadata + "}, spec: {containers: [{name: c, image: i}]}}"
}

// jobLabels are what the Job controller writes on the pods of job j with UID u.
const jobLabels = "batch.kubernetes.io/controller-uid: u, controller-uid: u, batch.kubernetes.io/job-name: j, job-name: j"

func TestJobPods(t *testing.T) {
	t.Parallel()
	v := named(t, trainers(), JobPods)
	pod := podOf(controlled("batch/v1", "Job", "j", "u", jobLabels))
	const another, label = "was not created by the controller of that kind", "that controller did not create it"
	for name, tc := range map[string]struct {
		q    question
		want string
	}{
		"the Job controller's pod":                         {q: question{object: pod, user: jobController}},
		"a person's pod of a Job":                          {q: question{object: pod}, want: "Job j as its controller"},
		"an admin's pod of a Job":                          {q: question{object: pod, admin: true}, want: another},
		"the CronJob controller's pod of a Job":            {q: question{object: pod, user: cronController}, want: another},
		"another kind's controller's":                      {q: question{object: pod, user: trainOperator}, want: another},
		"a bare pod":                                       {q: question{object: podOf("name: p, labels: {app: a}")}},
		"a bare pod without metadata to speak of":          {q: question{object: podOf("name: p")}},
		"a bare pod with a Job's UID":                      {q: question{object: podOf("labels: {controller-uid: u}")}, want: "controller-uid, by which"},
		"a bare pod with a Job's name":                     {q: question{object: podOf("labels: {job-name: j}")}, want: label},
		"a bare pod with an empty adoption label":          {q: question{object: podOf("labels: {job-name: ''}")}, want: label},
		"a Job that owns without controlling":              {q: question{object: podOf("ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: u}]")}},
		"a Job that says it does not control":              {q: question{object: podOf("ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: u, controller: false}]")}},
		"a Job of another version":                         {q: question{object: podOf(controlled("batch/v2alpha7", "Job", "j", "u", ""))}, want: another},
		"a Job of another group":                           {q: question{object: podOf(controlled("batch.volcano.sh/v1", "Job", "j", "u", ""))}},
		"a ReplicaSet's pod":                               {q: question{object: podOf(controlled("apps/v1", "ReplicaSet", "r", "u", "pod-template-hash: h")), user: "system:serviceaccount:kube-system:replicaset-controller"}},
		"a static pod's mirror":                            {q: question{object: podOf(controlled("v1", "Node", "n", "u", "")), user: "system:node:n", groups: []string{"system:nodes"}}},
		"the Job controller's pod with another's UID":      {q: question{object: podOf(controlled("batch/v1", "Job", "j", "u", "controller-uid: v")), user: jobController}, want: "name another job"},
		"the Job controller's pod with another's name":     {q: question{object: podOf(controlled("batch/v1", "Job", "j", "u", "controller-uid: u, job-name: k")), user: jobController}, want: "name another job"},
		"the Job controller's pod with an owner-less name": {q: question{object: podOf("labels: {job-name: j}"), user: jobController}, want: "name another job"},
		"the UID of an owner that does not control":        {q: question{object: podOf("ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: u}], labels: {controller-uid: u}"), user: jobController}, want: "name another job"},
		"a custom kind's pod":                              {q: question{object: podOf(controlled("x.example.com/v1", "Trainer", "j", "u", "x.example.com/job-name: j, x.example.com/rank: '3'")), user: trainOperator}},
		"a custom kind's pod by the Job controller":        {q: question{object: podOf(controlled("x.example.com/v1", "Trainer", "j", "u", "")), user: jobController}, want: another},
		"a custom kind's label by the Job controller":      {q: question{object: podOf(controlled("batch/v1", "Job", "j", "u", "x.example.com/rank: '3'")), user: jobController}, want: label},
		"a Job's label by the custom kind's controller":    {q: question{object: podOf(controlled("x.example.com/v1", "Trainer", "j", "u", "controller-uid: u")), user: trainOperator}, want: label},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, ask(t, v, tc.q), tc.want)
		})
	}
}

func TestOwners(t *testing.T) {
	t.Parallel()
	v := named(t, trainers(), Owners)
	owned := podOf(controlled("batch/v1", "Job", "j", "u", jobLabels))
	bare := podOf("name: p")
	replica := podOf(controlled("apps/v1", "ReplicaSet", "r", "r", "a: b"))
	const never, leave, charge = "and never afterwards", "never added or changed after creation", "is only taken off by"
	const collector = "system:serviceaccount:kube-system:generic-garbage-collector"
	job := func(metadata string) string {
		return "{apiVersion: batch/v1, kind: Job, metadata: {name: j, uid: u, " + metadata + "}, spec: {}}"
	}
	cron := "ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: c, uid: c, controller: true}]"
	for name, tc := range map[string]struct {
		q    question
		want string
	}{
		"nothing changes":                              {q: question{object: owned, old: owned}},
		"nothing is there":                             {q: question{object: bare, old: bare}},
		"another label beside":                         {q: question{object: podOf(controlled("batch/v1", "Job", "j", "u", jobLabels+", a: b")), old: owned}},
		"a pod is given to a Job":                      {q: question{object: podOf(controlled("batch/v1", "Job", "j", "u", "")), old: bare}, want: "ownerReference to Job j"},
		"by an admin":                                  {q: question{object: podOf(controlled("batch/v1", "Job", "j", "u", "")), old: bare, admin: true}, want: never},
		"by the Job controller":                        {q: question{object: podOf(controlled("batch/v1", "Job", "j", "u", "")), old: bare, user: jobController}, want: never},
		"through status":                               {q: question{resource: "pods/status", object: podOf(controlled("batch/v1", "Job", "j", "u", "")), old: bare}, want: never},
		"an owner comes to control":                    {q: question{object: podOf(controlled("batch/v1", "Job", "j", "u", "")), old: podOf("ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: u}]")}, want: never},
		"the UID changes":                              {q: question{object: podOf(controlled("batch/v1", "Job", "j", "v", jobLabels)), old: owned}, want: never},
		"the name changes":                             {q: question{object: podOf(controlled("batch/v1", "Job", "k", "u", jobLabels)), old: owned}, want: never},
		"the group changes":                            {q: question{object: podOf(controlled("batch/v1", "Job", "j", "u", "")), old: podOf(controlled("batch.volcano.sh/v1", "Job", "j", "u", ""))}, want: never},
		"blockOwnerDeletion changes":                   {q: question{object: podOf("ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: u, controller: true}], labels: {" + jobLabels + "}"), old: owned, user: collector}},
		"a ReplicaSet adopts an orphan":                {q: question{object: replica, old: podOf("name: p, labels: {a: b}"), user: "system:serviceaccount:kube-system:replicaset-controller"}},
		"a ReplicaSet lets one go":                     {q: question{object: podOf("name: p, labels: {a: b}"), old: replica, user: "system:serviceaccount:kube-system:replicaset-controller"}},
		"a person takes a Job's pod from it":           {q: question{object: podOf("labels: {" + jobLabels + "}"), old: owned}, want: charge},
		"an admin does":                                {q: question{object: podOf("labels: {" + jobLabels + "}"), old: owned, admin: true}, want: charge},
		"the garbage collector does":                   {q: question{object: podOf("labels: {" + jobLabels + "}"), old: owned, user: collector}},
		"the control plane without accounts does":      {q: question{object: podOf("labels: {" + jobLabels + "}"), old: owned, user: "system:kube-controller-manager"}},
		"the Job controller does":                      {q: question{object: bare, old: owned, user: jobController}},
		"another kind's controller does":               {q: question{object: bare, old: owned, user: trainOperator}, want: charge},
		"a person makes no controller of it":           {q: question{object: podOf("ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: u}], labels: {" + jobLabels + "}"), old: owned}, want: charge},
		"an adoption label is added":                   {q: question{object: podOf("labels: {controller-uid: u}"), old: bare}, want: "controller-uid: a label by which"},
		"an adoption label is changed":                 {q: question{object: podOf("labels: {job-name: k}"), old: podOf("labels: {job-name: j}")}, want: leave},
		"an adoption label is added through status":    {q: question{resource: "pods/status", object: podOf("labels: {job-name: k}"), old: bare, user: jobController}, want: leave},
		"an adoption label is removed":                 {q: question{object: bare, old: podOf("labels: {job-name: j}")}, want: charge},
		"an adoption label is removed by its own":      {q: question{object: bare, old: podOf("labels: {job-name: j}"), user: jobController}},
		"a custom label is removed by the wrong one":   {q: question{object: bare, old: podOf("labels: {x.example.com/rank: '1'}"), user: jobController}, want: charge},
		"a pod is labelled with its own name":          {q: question{object: podOf("name: p, uid: x, labels: {job-name: p}"), old: podOf("name: p, uid: x")}, want: leave},
		"a Job is given to a CronJob":                  {q: question{object: job(cron), old: job("")}, want: "ownerReference to CronJob c"},
		"a Job is taken from its CronJob":              {q: question{object: job(""), old: job(cron)}, want: charge},
		"a Job is taken from it by its controller":     {q: question{object: job(""), old: job(cron), user: cronController}},
		"a Job is taken from it by the Job controller": {q: question{object: job(""), old: job(cron), user: jobController}, want: charge},
		"a Job comes to read as its own template":      {q: question{object: job("labels: {controller-uid: u, job-name: j}"), old: job("labels: {a: b}")}},
		"a Job no longer reads as its own template":    {q: question{object: job("labels: {a: b}"), old: job("labels: {controller-uid: u, job-name: j}")}},
		"a Job is labelled with another's UID":         {q: question{object: job("labels: {controller-uid: v}"), old: job("")}, want: leave},
		"a Job's status":                               {q: question{resource: "jobs/status", object: job(cron), old: job(cron), user: jobController}},
		"a pod is created with all of it":              {q: question{object: owned}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, ask(t, v, tc.q), tc.want)
		})
	}
}
