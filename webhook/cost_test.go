package webhook

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/webhook/settings"
)

// listed fills a text of the largest body with elements.
func listed(element string) string {
	const room = settings.DefaultMaxBodyBytes - 2048
	return strings.TrimSuffix(strings.Repeat(element+",", room/(len(element)+1)), ",")
}

// numbered is the same with keys or names that differ; %s stands for the number.
func numbered(element string) string {
	var b strings.Builder
	for i := 0; b.Len() < settings.DefaultMaxBodyBytes-4096; i++ {
		fmt.Fprintf(&b, element+",", fmt.Sprintf("%x", i))
	}
	return strings.TrimSuffix(b.String(), ",")
}

func inSpec(s string) string      { return `{"metadata":{"name":"p"},"spec":{` + s + `}}` }
func inContainer(s string) string { return inSpec(`"containers":[{"name":"c",` + s + `}]`) }
func inMeta(s string) string {
	return `{"metadata":{"name":"p",` + s + `},"spec":{"containers":[{"name":"c"}]}}`
}

// greedy are objects whose text is as long as it may be, and made to take many times as much once it is read.
func greedy() map[string]string {
	return map[string]string{
		"mounts":                inContainer(`"volumeMounts":[` + listed(`{}`) + `]`),
		"variables":             inContainer(`"env":[` + listed(`{}`) + `]`),
		"sources":               inContainer(`"envFrom":[` + listed(`{}`) + `]`),
		"devices":               inContainer(`"volumeDevices":[` + listed(`{}`) + `]`),
		"volumes":               inSpec(`"containers":[{}],"volumes":[` + listed(`{}`) + `]`),
		"projected sources":     inSpec(`"containers":[{}],"volumes":[{"projected":{"sources":[` + listed(`{"serviceAccountToken":{"audience":""}}`) + `]}}]`),
		"owners":                inMeta(`"ownerReferences":[` + listed(`{}`) + `]`),
		"containers' lists":     inSpec(`"containers":[` + listed(`{"volumeMounts":[`+strings.TrimSuffix(strings.Repeat(`{},`, 2600), ",")+`]}`) + `]`),
		"our volume":            inSpec(`"containers":[{}],"volumes":[{"name":"` + wire.VolumeJob + `","x":[` + listed(`{}`) + `]}]`),
		"keys of ours":          inMeta(`"annotations":{` + numbered(`"lanyard.dev/%s":""`) + `}`),
		"names in a list":       inMeta(`"annotations":{"` + wire.AnnotationContainers + `":"` + numbered(`%s`) + `"}`),
		"keys":                  inMeta(`"annotations":{` + numbered(`"%s":""`) + `}`),
		"keys that are skipped": `{"status":{` + numbered(`"%s":0`) + `}}`,
		"keys at many depths":   `{"status":` + strings.Repeat(`{"a":`, 200) + `{` + numbered(`"%s":0`) + `}` + strings.Repeat(`}`, 200) + `}`,
		"long keys":             `{"status":{` + numbered(`"`+strings.Repeat("k", 1<<10)+`%s":0`) + `}}`,
		"one value":             inContainer(`"env":[{"name":"A","value":"` + strings.Repeat(`\n`, 3<<20+1<<19-2048) + `"}]`),
		"templates":             `{"x":[` + listed(`{"spec":{"containers":[`+strings.TrimSuffix(strings.Repeat(`{"env":[{}]},`, 500), ",")+`]}}`) + `]}`,
	}
}

// heldBy runs f while the collector works hard, and returns how much the heap held at most beyond what it held before.
func heldBy(f func()) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	heap := func() int64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(s)
		return int64(s[0].Value.Uint64())
	}
	runtime.GC()
	before := heap()
	done, most := make(chan struct{}), make(chan int64)
	go func() {
		seen := int64(0)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			seen = max(seen, heap()-before)
			select {
			case <-done:
				most <- seen
				return
			case <-tick.C:
			}
		}
	}()
	f()
	close(done)
	return <-most
}

// TestNoBodyCostsManyTimesItsLength posts each of them. 2.4 million mounts, which are 7 MiB, took 740 MiB once.
func TestNoBodyCostsManyTimesItsLength(t *testing.T) { // beside no other test, whose memory would be counted too
	const most = 10 * settings.DefaultMaxBodyBytes
	d, _ := newDesk(t)
	for name, object := range greedy() {
		for _, a := range []ask{{object: object}, {object: object, group: "batch", resource: "jobs", kind: "Job"}} {
			body := a.body()
			if len(body) > settings.DefaultMaxBodyBytes || len(body) < settings.DefaultMaxBodyBytes*9/10 {
				t.Fatalf("%s: the body has %d bytes and should have nearly as many as there may be", name, len(body))
			}
			r := httptest.NewRequest(http.MethodPost, wire.PathMutateJob, bytes.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			held := heldBy(func() { d.ServeHTTP(sink{http.Header{}}, r) })
			t.Logf("%s, %s: %.1f MiB", name, cmp.Or(a.kind, "Pod"), float64(held)/(1<<20))
			if held > most {
				t.Errorf("%s, %s: a body of %d bytes makes the heap hold %d, at most %d are allowed", name, cmp.Or(a.kind, "Pod"), len(body), held, most)
			}
		}
	}
}

// TestTooMuchOfOneThingIsRefused: within the review, with the field and the bound, whatever failurePolicy says.
func TestTooMuchOfOneThingIsRefused(t *testing.T) {
	t.Parallel()
	many := func(n int, element string) string { return strings.TrimSuffix(strings.Repeat(element+",", n), ",") }
	env := func(n int) string { return inContainer(`"env":[` + many(n, `{"name":"A","value":"x"}`) + `]`) }
	tests := map[string]struct {
		object string
		path   string
		want   string // empty: allowed
	}{
		"a pod of 40,000 variables":    {env(40_000), wire.PathMutateJob, ""},
		"a pod of 50,000 variables":    {env(50_000), wire.PathMutateJob, "spec.containers[0].env[49998]: want at most 50000 elements"},
		"the same when it is verified": {env(50_000), wire.PathValidateJob, "spec.containers[0].env[49998]: want at most 50000 elements"},
		"mounts of two containers": {
			inSpec(`"initContainers":[{"volumeMounts":[` + many(30_000, "{}") + `]}],"containers":[{"name":"c","volumeMounts":[` + many(30_000, "{}") + `]}]`),
			wire.PathMutateJob, "spec.containers[0].volumeMounts[19997]: want at most 50000 elements",
		},
		"keys that are skipped": {`{"status":{` + numbered(`"%s":0`) + `}}`, wire.PathMutateJob, "status.186e0: want fewer keys: at most 100000"},
		"a long list of names": {
			inMeta(`"annotations":{"` + wire.AnnotationContainers + `":"` + strings.Repeat("c,", 132_000) + `"}`), wire.PathMutateJob,
			"metadata.annotations[lanyard.dev/containers]: want at most 262144 bytes",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, _ := newDesk(t)
			r := reviewed(t, post(d, tc.path, ask{object: tc.object}.body()))
			if r.Allowed != (tc.want == "") {
				t.Fatalf("allowed: %v, %v", r.Allowed, r.Result)
			}
			if tc.want != "" && (r.Result.Code != http.StatusBadRequest || !strings.Contains(r.Result.Message, "malformed object at "+tc.want)) {
				t.Errorf("got %d %q, want %q", r.Result.Code, r.Result.Message, tc.want)
			}
		})
	}
}

func TestGroupsAreBounded(t *testing.T) {
	t.Parallel()
	d, _ := newDesk(t)
	body := bytes.Replace(ask{}.body(), []byte(`"groups":["dev"]`), []byte(`"groups":[`+strings.TrimSuffix(strings.Repeat(`"",`, 2_000_000), ",")+`]`), 1)
	if r := reviewed(t, post(d, wire.PathMutateJob, body)); r.Allowed || !strings.Contains(r.Result.Message, "request.userInfo.groups has more than 10000 elements") {
		t.Errorf("got %v", r.Result)
	}
}
