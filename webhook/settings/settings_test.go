package settings

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/internal/config"
	"github.com/lanyard-k8s/lanyard/mutate"
)

const (
	pub = "publisher: {enabled: true}\n"
	job = "job: {enabled: true, baseURL: \"https://exchange.lanyard.svc:8443\"}\n"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	got, err := Parse([]byte(pub + job))
	if err != nil {
		t.Fatal(err)
	}
	want := Settings{
		Rules: mutate.Rules{
			Mode: mutate.Enforce, SkipContainers: defaultSkip(), DocsURL: DefaultDocsURL,
			Publisher: &mutate.PublisherRules{Token: mutate.Token{
				Audience: wire.DefaultPublisherAudience, ExpirationSeconds: 3600, MaxExpirationSeconds: 86400, MountPath: wire.DefaultPublisherMountPath}},
			Job: &mutate.JobRules{
				Token:   mutate.Token{Audience: wire.DefaultJobAudience, ExpirationSeconds: 600, MaxExpirationSeconds: 3600, MountPath: wire.DefaultJobMountPath},
				BaseURL: "https://exchange.lanyard.svc:8443", CAConfigMap: wire.DefaultCAConfigMap, Kinds: []mutate.GroupKind{{Group: "batch", Kind: "Job"}},
			},
		},
		JobKinds: defaultKinds(), Delegating: defaultDelegates(),
		Limits:     Limits{DefaultMaxBodyBytes, DefaultMaxInFlight, DefaultMaxInFlightBytes},
		Publishing: true, ManagedJobs: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]mutate.GroupKind{{Group: "batch", Kind: "Job"}, {Group: "batch", Kind: "CronJob"}}, got.Stamped()); diff != "" {
		t.Errorf("stamped (-want +got):\n%s", diff)
	}
}

func TestStatementsThatAreTaken(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		file string
		got  func(Settings) any
		want any
	}{
		"a role that is off has no rules":          {"publisher: {enabled: false}\n" + job, func(s Settings) any { return s.Rules.Publisher == nil }, true},
		"jobs that are off need no baseURL":        {pub + "job: {enabled: false}", func(s Settings) any { return s.Rules.Job == nil }, true},
		"no container skipped is a statement":      {pub + job + "injection: {skipContainers: []}", func(s Settings) any { return s.Rules.SkipContainers }, []string{}},
		"the least lifetime":                       {"publisher: {enabled: true, tokenExpirationSeconds: 600}\n" + job, func(s Settings) any { return s.Rules.Publisher.ExpirationSeconds }, int64(600)},
		"the greatest lifetime raises the maximum": {"publisher: {enabled: true, tokenExpirationSeconds: 4294967296}\n" + job, func(s Settings) any { return s.Rules.Publisher.MaxExpirationSeconds }, int64(1) << 32},
		"mode audit":   {pub + job + "admission: {mode: audit}", func(s Settings) any { return s.Rules.Mode }, mutate.Audit},
		"JSON is YAML": {`{"publisher":{"enabled":true},"job":{"enabled":false}}`, func(s Settings) any { return s.Publishing }, true},
		"a resource that is not given is guessed":    {pub + `job: {enabled: true, baseURL: "https://e", kinds: [{group: ray.io, kind: RayJob, podCreators: [x]}]}`, func(s Settings) any { return s.JobKinds[0].Resource }, "rayjobs"},
		"a component may create pods":                {pub + `job: {enabled: true, baseURL: "https://e", kinds: [{group: batch, kind: Job, podCreators: ["system:kube-controller-manager"]}]}`, func(s Settings) any { return s.JobKinds[0].PodCreators }, []string{"system:kube-controller-manager"}},
		"no delegating controllers is a statement":   {pub + job + "delegatingControllers: []", func(s Settings) any { return len(s.Delegating) }, 0},
		"a list entry that stands twice is harmless": {"publisher: {enabled: true, listed: [a/b, a/b]}\n" + job, func(s Settings) any { return len(s.Rules.Publisher.Listed) }, 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Parse([]byte(tc.file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, tc.got(s)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// in writes one key into a section of an otherwise good file.
func in(section, key string) string {
	good := map[string]string{"publisher": "enabled: true", "job": `enabled: true, baseURL: "https://e.svc"`}
	var b strings.Builder
	for _, s := range []string{"publisher", "job"} {
		line := good[s]
		if s == section {
			line += ", " + key
		}
		fmt.Fprintf(&b, "%s: {%s}\n", s, line)
	}
	if _, ok := good[section]; !ok {
		fmt.Fprintf(&b, "%s: {%s}\n", section, key)
	}
	return b.String()
}

func TestStatementsThatAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		file     string
		wantPath string
		wantSays string
	}{
		"a lifetime below ten minutes":         {in("publisher", "tokenExpirationSeconds: 599"), "publisher.tokenExpirationSeconds", "between 600 and 4294967296"},
		"a lifetime with a fraction":           {in("publisher", "tokenExpirationSeconds: 600.5"), "publisher.tokenExpirationSeconds", "whole number"},
		"a lifetime in scientific notation":    {in("publisher", "tokenExpirationSeconds: 1e3"), "publisher.tokenExpirationSeconds", "whole number"},
		"a lifetime in another base":           {in("publisher", "tokenExpirationSeconds: 0x1000"), "publisher.tokenExpirationSeconds", "whole number"},
		"a lifetime in quotes":                 {in("publisher", `tokenExpirationSeconds: "3600"`), "publisher.tokenExpirationSeconds", "not a string"},
		"a lifetime beyond the API's":          {in("publisher", "tokenExpirationSeconds: 4294967297"), "publisher.tokenExpirationSeconds", "between 600 and 4294967296"},
		"a lifetime beyond 64 bits":            {in("publisher", "tokenExpirationSeconds: 99999999999999999999"), "publisher.tokenExpirationSeconds", "between"},
		"a lifetime that is null":              {in("publisher", "tokenExpirationSeconds: null"), "publisher.tokenExpirationSeconds", "is null"},
		"a maximum below the lifetime":         {in("job", "tokenExpirationSeconds: 1200, maxTokenExpirationSeconds: 600"), "job.maxTokenExpirationSeconds", "at least tokenExpirationSeconds"},
		"a section that is null":               {job + "publisher: null", "publisher", "is null"},
		"a section that is written as nothing": {job + "publisher:", "publisher", "is null"},
		"a section that is a list":             {job + "publisher: []", "publisher", "must be a mapping"},
		"a section that is missing":            {job, "publisher.enabled", "must be given"},
		"a role that nobody decided about":     {job + "publisher: {}", "publisher.enabled", "must be given"},
		"a quoted boolean":                     {job + `publisher: {enabled: "true"}`, "publisher.enabled", "not a string"},
		"a boolean of older YAML":              {job + "publisher: {enabled: yes}", "publisher.enabled", "not a string"},
		"a number for a boolean":               {job + "publisher: {enabled: 1}", "publisher.enabled", "not a number"},
		"an unknown key":                       {in("publisher", "audiense: x"), "publisher.audiense", `did you mean "audience"?`},
		"an unknown key that is near nothing":  {in("publisher", "zzzzzzzzzz: x"), "publisher.zzzzzzzzzz", "remove it"},
		"an unknown key at the top":            {pub + job + "publishers: {}", "publishers", `did you mean "publisher"?`},
		"a key in another case":                {in("publisher", "Audience: x"), "publisher.Audience", `did you mean "audience"?`},
		"a key that stands twice":              {in("publisher", "audience: a, audience: b"), "publisher.audience", "stands twice"},
		"a section that stands twice":          {pub + pub + job, "publisher", "stands twice"},
		"an empty audience":                    {in("publisher", `audience: ""`), "publisher.audience", "is empty"},
		"an audience with a space":             {in("publisher", `audience: "a b"`), "publisher.audience", "white space"},
		"two equal audiences":                  {in("job", "audience: "+wire.DefaultPublisherAudience), "job.audience", "another audience"},
		"a relative mount path":                {in("publisher", "tokenMountPath: run/x"), "publisher.tokenMountPath", "clean absolute path"},
		"a mount path that is not clean":       {in("publisher", "tokenMountPath: /run/x/../y"), "publisher.tokenMountPath", "clean absolute path"},
		"a mount path with a slash behind":     {in("publisher", "tokenMountPath: /run/x/"), "publisher.tokenMountPath", "clean absolute path"},
		"one mount path below the other":       {in("job", "tokenMountPath: "+wire.DefaultPublisherMountPath+"/x"), "job.tokenMountPath", "apart"},
		"a baseURL without TLS":                {pub + `job: {enabled: true, baseURL: "http://e"}`, "job.baseURL", "https"},
		"a baseURL with a password":            {pub + `job: {enabled: true, baseURL: "https://a:b@e"}`, "job.baseURL", "without user"},
		"no baseURL":                           {pub + `job: {enabled: true}`, "job.baseURL", "must be given"},
		"an entry that is not namespace/name":  {in("publisher", "listed: [monitor]"), "publisher.listed[0]", "namespace/serviceAccount"},
		"an entry with a space":                {in("publisher", `listed: [a/b, " a/b"]`), "publisher.listed[1]", "DNS-1123 label"},
		"an entry in upper case":               {in("publisher", "listed: [a/B]"), "publisher.listed[0]", "DNS-1123 subdomain"},
		"a list that is null":                  {in("publisher", "listed: null"), "publisher.listed", "write"},
		"a list entry that is null":            {in("publisher", "listed: [null]"), "publisher.listed[0]", "is null"},
		"a list that is a string":              {in("publisher", "listed: a/b"), "publisher.listed", "must be a list"},
		"a username without its prefix":        {in("publisher", "crossNode: [a/b]"), "publisher.crossNode[0]", "canonical username"},
		"a username with upper case":           {in("publisher", `crossNode: ["system:serviceaccount:A:b"]`), "publisher.crossNode[0]", "DNS-1123 label"},
		"a mode that is not one":               {in("admission", "mode: Audit"), "admission.mode", "enforce, audit"},
		"a mode that is null":                  {in("admission", "mode: null"), "admission.mode", "is null"},
		"skipContainers that is null":          {in("injection", "skipContainers: null"), "injection.skipContainers", "[] for an empty list"},
		"a kind without podCreators":           {in("job", "kinds: [{group: batch, kind: Job}]"), "job.kinds[0].podCreators", "must be given"},
		"a kind with no podCreators":           {in("job", "kinds: [{group: batch, kind: Job, podCreators: []}]"), "job.kinds[0].podCreators", "is empty"},
		"everybody as a pod creator":           {in("job", `kinds: [{group: batch, kind: Job, podCreators: ["system:authenticated"]}]`), "job.kinds[0].podCreators[0]", "stands for everybody"},
		"a pattern as a pod creator":           {in("job", `kinds: [{group: batch, kind: Job, podCreators: ["system:*"]}]`), "job.kinds[0].podCreators[0]", "patterns"},
		"a kind that stands twice":             {in("job", "kinds: [{group: a, kind: J, podCreators: [x]}, {group: a, kind: J, podCreators: [x]}]"), "job.kinds[1].kind", "twice"},
		"no kinds while jobs are on":           {in("job", "kinds: []"), "job.kinds", "at least one kind"},
		"a parent without a group":             {pub + job + `delegatingControllers: [{identity: x, parents: [CronJob]}]`, "delegatingControllers[0].parents[0]", "group/Kind"},
		"a budget below one body":              {in("limits", "maxInFlightBytes: 70000"), "limits.maxInFlightBytes", "at least limits.maxBodyBytes"},
		"an alias":                             {"publisher: &p {enabled: true}\njob: *p\n", "job", "aliases are not taken"},
		"a merge key":                          {"publisher: &p {enabled: true}\njob: {<<: *p, enabled: false}\n", "job", "merge keys"},
		"two documents":                        {pub + job + "---\na: b\n", "", "more than one document"},
		"nothing":                              {"", "", "empty"},
		"a list":                               {"[]", "", "must be a mapping"},
		"no YAML":                              {"a: [", "", "not readable as YAML"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse([]byte(tc.file))
			var faults config.Faults
			if !errors.As(err, &faults) {
				t.Fatalf("error %v", err)
			}
			for _, f := range faults {
				if f.Path == tc.wantPath && strings.Contains(f.Message, tc.wantSays) {
					return
				}
			}
			t.Errorf("no fault at %q that says %q in:\n%v", tc.wantPath, tc.wantSays, err)
		})
	}
}

func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := Parse([]byte(`admission: {mode: Enforce, strictname: true}
publisher: {enabled: "true", audience: "", tokenExpirationSeconds: 600.5}
job: {enabled: true, kinds: [{kind: Job}]}
`))
	var faults config.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("error %v", err)
	}
	var got []string
	for _, f := range faults {
		got = append(got, fmt.Sprintf("%d %s", f.Line, f.Path))
	}
	want := []string{
		"1 admission.mode", "1 admission.strictname", "2 publisher.audience", "2 publisher.enabled", "2 publisher.tokenExpirationSeconds",
		"0 job.baseURL", "0 job.kinds[0].group", "0 job.kinds[0].podCreators",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
