package webhook

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate"
)

func TestRouting(t *testing.T) {
	t.Parallel()
	job := ask{resource: "jobs", group: "batch", kind: "Job"}
	with := func(a ask, edit func(*ask)) ask { edit(&a); return a }
	update := func(a *ask) { a.operation, a.old = "UPDATE", "{}" }
	status := func(a *ask) { update(a); a.sub = "status" }
	debug := func(a *ask) { update(a); a.sub = ephemeral }
	remove := func(a *ask) { a.operation = "DELETE" }
	tests := map[string]struct {
		path string
		ask  ask
		want string // the room, or "" for unexpected
	}{
		"a pod is mutated":                               {wire.PathMutateJob, ask{}, "pod"},
		"a publisher's pod is mutated":                   {wire.PathMutatePublisher, ask{}, "pod"},
		"a listed pod is mutated":                        {wire.PathMutateListed, ask{}, "pod"},
		"a job is stamped":                               {wire.PathMutateJob, job, "stamp"},
		"a job's update is stamped":                      {wire.PathMutateJob, with(job, update), "stamp"},
		"a parent is stamped":                            {wire.PathMutateJob, ask{resource: "cronjobs", group: "batch", kind: "CronJob"}, "stamp"},
		"a pod is verified":                              {wire.PathValidateJob, ask{}, "verify"},
		"an ephemeral container is verified":             {wire.PathValidateListed, with(ask{}, debug), "verify"},
		"a template is checked":                          {wire.PathValidateTemplate, with(job, update), "template"},
		"a kind we have never heard of is checked":       {wire.PathValidateTemplate, ask{resource: "rayjobs", group: "ray.io", kind: "RayJob"}, "template"},
		"a pod's update is never expected":               {wire.PathMutateJob, with(ask{}, update), ""},
		"an ephemeral container is not mutated":          {wire.PathMutateJob, with(ask{}, debug), ""},
		"a pod's update is not verified":                 {wire.PathValidateJob, with(ask{}, update), ""},
		"a pod's status is not verified":                 {wire.PathValidateJob, with(ask{}, status), ""},
		"a job's status is not stamped":                  {wire.PathMutateJob, with(job, status), ""},
		"a job is not stamped for publishers":            {wire.PathMutatePublisher, job, ""},
		"a job is not verified":                          {wire.PathValidateJob, job, ""},
		"a kind that is not in the table is not stamped": {wire.PathMutateJob, ask{resource: "deployments", group: "apps", kind: "Deployment"}, ""},
		"a deletion is never expected":                   {wire.PathValidateTemplate, with(job, remove), ""},
		"a pod is not a template":                        {wire.PathValidateTemplate, ask{}, ""},
		"a Pod of another group is not a pod":            {wire.PathMutateJob, ask{group: "example.com"}, ""},
		"a pod that claims to be a Job's resource":       {wire.PathMutateJob, ask{resource: "jobs"}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			room := func(name string) Decide {
				return func(mutate.Request, mutate.Rules) (mutate.Decision, error) {
					got = name
					return mutate.Decision{Outcome: mutate.Skipped}, nil
				}
			}
			d, _ := newDesk(t, func(o *Options) {
				o.Rooms = Rooms{Pod: room("pod"), Stamp: room("stamp"), Verify: room("verify"), Template: room("template")}
			})
			r := reviewed(t, post(d, tc.path, tc.ask.body()))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("room (-want +got):\n%s", diff)
			}
			if r.Allowed != (tc.want != "") {
				t.Errorf("allowed %v", r.Allowed)
			}
			if tc.want == "" && (r.Result.Code != 400 || !strings.Contains(r.Result.Message, "has no rule for")) {
				t.Errorf("result %+v", r.Result)
			}
		})
	}
}
