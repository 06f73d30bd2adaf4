package reconcile

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/delegationtest"
	"github.com/lanyard-k8s/lanyard/exchange/provenance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOptions(t *testing.T) {
	t.Parallel()
	good := func() Options {
		return Options{
			Config: &rest.Config{Host: "https://127.0.0.1:1"}, Store: &delegationtest.Memory{}, Settings: settings(),
			IssuedAudience: "api", Audiences: []string{"api"},
		}
	}
	tests := map[string]struct {
		alter func(*Options)
		want  string // in the error; empty is none
	}{
		"good":                {func(*Options) {}, ""},
		"no cluster":          {func(o *Options) { o.Config = nil }, "a cluster and a store"},
		"no store":            {func(o *Options) { o.Store = nil }, "a cluster and a store"},
		"no jobs":             {func(o *Options) { o.Settings.Jobs = false }, "must turn jobs on"},
		"no kinds":            {func(o *Options) { o.Settings.Kinds = nil }, "must turn jobs on"},
		"no subject audience": {func(o *Options) { o.Settings.JobAudience = "" }, "must turn jobs on"},
		"no audiences":        {func(o *Options) { o.Audiences = nil }, "audiences"},
		"a negative age":      {func(o *Options) { o.MaxAge = -1 }, "negative"},
		"a CA without source": {func(o *Options) { o.CA = &CA{ConfigMap: "ca"} }, "certificate"},
		"a nameless lease":    {func(o *Options) { o.Lease = &Lease{Namespace: "a"} }, "lease"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := good()
			tc.alter(&o)
			_, err := New(o)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestRulesAreThePolicies(t *testing.T) {
	t.Parallel()
	want := provenance.Rules{
		Kinds: []provenance.Kind{{
			GroupKind: provenance.GroupKind{Group: "batch", Kind: "Job"}, PodCreators: []string{"system:serviceaccount:kube-system:job-controller"},
		}},
		Delegating: []provenance.Delegate{{
			Identity: "system:serviceaccount:kube-system:cronjob-controller", Parents: []provenance.GroupKind{{Group: "batch", Kind: "CronJob"}},
		}},
		Submitters: []string{"system:serviceaccount:platform:submitter"}, Audience: "nemo-platform",
	}
	if diff := cmp.Diff(want, rulesOf(settings())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestServerClock(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	c := &serverClock{now: func() time.Time { return now }}
	if _, ok := c.server(); ok {
		t.Error("a clock that was never heard of is relied on")
	}
	answer := func(date string) {
		next := roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{Header: http.Header{"Date": {date}}, Body: io.NopCloser(strings.NewReader(""))}, nil
		})
		got, err := c.wrap(next).RoundTrip(&http.Request{})
		if err != nil {
			t.Fatal(err)
		}
		if err := got.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for off, want := range map[time.Duration]bool{0: true, 30 * time.Second: true, -30 * time.Second: true, 31 * time.Second: false, -31 * time.Second: false} {
		answer(now.Add(off).Format(http.TimeFormat))
		if at, ok := c.server(); ok != want || !at.Equal(now.Add(off)) || c.skew() != -off {
			t.Errorf("%s away: %s, %t", off, at, ok)
		}
	}
	answer(now.Format(http.TimeFormat))
	answer("no date")
	if _, ok := c.server(); !ok {
		t.Error("an answer without a date was believed")
	}
	broken := errors.New("broken")
	if _, err := c.wrap(roundTripper(func(*http.Request) (*http.Response, error) { return nil, broken })).RoundTrip(&http.Request{}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestLabelled(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	entry := func(minutes int, fields string) metav1.ManagedFieldsEntry {
		at := metav1.NewTime(now.Add(time.Duration(minutes) * time.Minute))
		return metav1.ManagedFieldsEntry{Time: &at, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	ours := `{"f:metadata":{"f:labels":{"f:lanyard.dev/jobs":{}}}}`
	tests := map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    int
	}{
		"nobody has noted who wrote it": {nil, 0},
		"one did":                       {[]metav1.ManagedFieldsEntry{entry(-9, ours), entry(-3, `{"f:metadata":{}}`)}, -9},
		"two did":                       {[]metav1.ManagedFieldsEntry{entry(-9, ours), entry(-5, ours)}, -5},
		"in the future":                 {[]metav1.ManagedFieldsEntry{entry(9, ours)}, 0},
		"without a time":                {[]metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(ours)}}, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			space := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ManagedFields: tc.entries}}
			if got := labelled(space, now); !got.Equal(now.Add(time.Duration(tc.want) * time.Minute)) {
				t.Errorf("got %s, want %d minutes", got, tc.want)
			}
		})
	}
}

func TestExplained(t *testing.T) {
	t.Parallel()
	seen := func(uid string, generation int64) delegation.Seen {
		return delegation.Seen{UID: uid, Generation: generation}
	}
	tests := map[string]struct {
		before, now delegation.Seen
		want        bool
	}{
		"nothing happened":            {seen("a", 3), seen("a", 3), true},
		"one change, both looked at":  {seen("a", 3), seen("a", 4), true},
		"changed and changed back":    {seen("a", 3), seen("a", 5), false},
		"deleted and made again":      {seen("a", 3), seen("b", 3), false},
		"never seen before":           {seen("", 0), seen("a", 1), false},
		"an older copy of the object": {seen("a", 3), seen("a", 2), false},
	}
	for name, tc := range tests {
		if got := explained(tc.before, tc.now); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestWhatComesNext(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	in := func(d time.Duration) *metav1.Time { at := metav1.NewTime(now.Add(d)); return &at }
	tests := map[string]struct {
		deletion *metav1.Time
		hard     time.Time
		want     time.Duration
	}{
		"nothing":              {nil, time.Time{}, 0},
		"a deletion":           {in(time.Minute), time.Time{}, time.Minute + time.Second},
		"a deletion that was":  {in(-time.Minute), time.Time{}, time.Second},
		"a cap":                {nil, now.Add(time.Hour), time.Hour},
		"a cap that was":       {nil, now.Add(-time.Hour), time.Second},
		"a cap after the end":  {in(time.Minute), now.Add(time.Hour), time.Minute + time.Second},
		"a cap before the end": {in(time.Hour), now.Add(time.Minute), time.Minute},
	}
	for name, tc := range tests {
		if got := next(now, tc.deletion, tc.hard); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// TestMetrics: names and helps are well formed, and every series is there before anything has happened.
func TestMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m, err := NewMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	before, err := testutil.GatherAndCount(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range provenance.Reasons() {
		for _, o := range provenance.OutcomesOf(r) {
			m.judged(podObject, provenance.Verdict{Outcome: o, Reason: r})
		}
	}
	for _, r := range delegation.Reasons() {
		m.closed(r)
	}
	m.stands(standing{state: Drift, epoch: time.Unix(7, 0)})
	if after, err := testutil.GatherAndCount(reg); err != nil || after != before {
		t.Errorf("%d series became %d, %v", before, after, err)
	}
	if got := testutil.ToFloat64(m.policies.WithLabelValues("drift")); got != 1 {
		t.Errorf("drift is %v", got)
	}
}
