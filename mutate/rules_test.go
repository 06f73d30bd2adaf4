package mutate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*mutate.Rules)
		want   []string
	}{
		"the defaults":                        {func(*mutate.Rules) {}, nil},
		"both roles off":                      {func(r *mutate.Rules) { r.Job, r.Publisher = nil, nil }, nil},
		"no mode":                             {func(r *mutate.Rules) { r.Mode = "" }, []string{"admission.mode"}},
		"a container with a space":            {func(r *mutate.Rules) { r.SkipContainers = []string{"a", "b "} }, []string{"injection.skipContainers[1]"}},
		"no audience":                         {func(r *mutate.Rules) { r.Job.Audience = "" }, []string{"job.audience"}},
		"one audience for both":               {func(r *mutate.Rules) { r.Job.Audience = r.Publisher.Audience }, []string{"job.audience"}},
		"a lifetime too short":                {func(r *mutate.Rules) { r.Publisher.ExpirationSeconds = 599 }, []string{"publisher.tokenExpirationSeconds"}},
		"a lifetime too long":                 {func(r *mutate.Rules) { r.Job.ExpirationSeconds = wire.MaxExpirationSeconds + 1 }, []string{"job.tokenExpirationSeconds", "job.maxTokenExpirationSeconds"}},
		"a maximum below the normal":          {func(r *mutate.Rules) { r.Job.MaxExpirationSeconds = 599 }, []string{"job.maxTokenExpirationSeconds"}},
		"a relative path":                     {func(r *mutate.Rules) { r.Job.MountPath = "var/run/x" }, []string{"job.tokenMountPath"}},
		"a path with a slash behind":          {func(r *mutate.Rules) { r.Job.MountPath = "/var/run/x/" }, []string{"job.tokenMountPath"}},
		"a path that expands":                 {func(r *mutate.Rules) { r.Job.MountPath = "/var/run/$(X)" }, []string{"job.tokenMountPath"}},
		"a path at the root":                  {func(r *mutate.Rules) { r.Job.MountPath = "/x" }, []string{"job.tokenMountPath"}},
		"a path above the CA":                 {func(r *mutate.Rules) { r.Job.MountPath = "/run/secrets/nemo-platform" }, []string{"job.tokenMountPath"}},
		"a path above every pod's own token":  {func(r *mutate.Rules) { r.Publisher.MountPath = "/run/secrets/kubernetes.io" }, []string{"publisher.tokenMountPath"}},
		"a path at every pod's own token":     {func(r *mutate.Rules) { r.Job.MountPath = "/var/run/secrets/kubernetes.io/serviceaccount" }, []string{"job.tokenMountPath"}},
		"a path beside every pod's own token": {func(r *mutate.Rules) { r.Job.MountPath = "/var/run/secrets/kubernetes.io/lanyard" }, nil},
		"one path below the other":            {func(r *mutate.Rules) { r.Job.MountPath = r.Publisher.MountPath + "/x" }, []string{"job.tokenMountPath"}},
		"one path by another name":            {func(r *mutate.Rules) { r.Job.MountPath = "/run/secrets/nvsentinel/platform-connector" }, []string{"job.tokenMountPath"}},
		"a base URL without TLS":              {func(r *mutate.Rules) { r.Job.BaseURL = "http://x" }, []string{"job.baseURL"}},
		"a base URL that expands":             {func(r *mutate.Rules) { r.Job.BaseURL = "https://x/$(Y)" }, []string{"job.baseURL"}},
		"a base URL with a password":          {func(r *mutate.Rules) { r.Job.BaseURL = "https://a:b@x" }, []string{"job.baseURL"}},
		"no kinds":                            {func(r *mutate.Rules) { r.Job.Kinds = nil }, []string{"job.kinds"}},
		"a kind without a name":               {func(r *mutate.Rules) { r.Job.Kinds = []mutate.GroupKind{{Group: "batch"}} }, []string{"job.kinds[0].kind"}},
		"two CA ConfigMaps":                   {func(r *mutate.Rules) { r.Publisher.CAConfigMap = "other" }, []string{"publisher.caConfigMap"}},
		"a ConfigMap with a slash":            {func(r *mutate.Rules) { r.Job.CAConfigMap = "a/b" }, []string{"job.caConfigMap"}},
		"a listed name with a space":          {func(r *mutate.Rules) { r.Publisher.Listed = []string{"a/b", "a/b ", "a", "A/b", "a/b/c"} }, []string{"publisher.listed[1]", "publisher.listed[2]", "publisher.listed[3]", "publisher.listed[4]"}},
		"a username in short form":            {func(r *mutate.Rules) { r.Publisher.CrossNode = []string{"a/b"} }, []string{"publisher.crossNode[0]"}},
		"all faults at once":                  {func(r *mutate.Rules) { r.Mode, r.Job.Audience, r.Job.BaseURL = "x", "", "" }, []string{"admission.mode", "job.audience", "job.baseURL"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := testRules()
			tc.change(&rules)
			var got []string
			for _, err := range rules.Validate() {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("fields differ (-want +got):\n%s", diff)
			}
		})
	}
}
