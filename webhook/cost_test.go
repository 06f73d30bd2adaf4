package webhook

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"

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

// nested is as many keys of one object as are not counted.
func nested() string {
	var b strings.Builder
	for i := range 63 {
		fmt.Fprintf(&b, `"%s%02d":0,`, strings.Repeat("k", 236), i)
	}
	return b.String()
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
		"one long key":          inMeta(`"annotations":{"` + strings.Repeat("é", (settings.DefaultMaxBodyBytes-2048)/2) + `":1}`),
		"a long key twice":      inMeta(`"annotations":{` + strings.Repeat(`"`+strings.Repeat("é", 1450<<10)+`":"",`, 2) + `"a":"` + strings.Repeat("x", 1300<<10) + `"}`),
		"keys on the way down":  `{"status":` + strings.Repeat(`{`+nested()+`"n":`, 475) + `0` + strings.Repeat(`}`, 475) + `}`,
		"one value":             inContainer(`"env":[{"name":"A","value":"` + strings.Repeat(`\n`, 3<<20+1<<19-2048) + `"}]`),
		"templates":             `{"x":[` + listed(`{"spec":{"containers":[`+strings.TrimSuffix(strings.Repeat(`{"env":[{}]},`, 500), ",")+`]}}`) + `]}`,
	}
}

// stopsForGC has a program collect its garbage while nothing else goes on: what is in use after a collection is then what was reached, and
// nothing that was made and dropped meanwhile.
const stopsForGC = "gcstoptheworld=1"

// collections is how many there must have been while a review was worked on, the same one over and over.
const collections = 8

// heldBy does f over and over while the garbage is collected again and again, and returns the most that was in use beyond what was before.
func heldBy(f func()) int64 {
	live := func() int64 {
		runtime.GC()
		s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(s)
		return int64(s[0].Value.Uint64())
	}
	var over atomic.Bool
	live() // what pools have kept goes in two rounds
	before, ended := live(), make(chan struct{})
	go func() {
		defer close(ended)
		for !over.Load() {
			f()
		}
	}()
	most := int64(0)
	for range collections {
		most = max(most, live()-before)
	}
	over.Store(true)
	<-ended
	return most
}

// TestNoBodyCostsManyTimesItsLength posts each of them. 2.4 million mounts, which are 7 MiB, took 740 MiB once.
func TestNoBodyCostsManyTimesItsLength(t *testing.T) {
	if !strings.Contains(os.Getenv("GODEBUG"), stopsForGC) { // in a process of its own, whose memory nobody else uses
		t.Parallel()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.paniconexit0")
		cmd.Env = append(os.Environ(), "GODEBUG="+stopsForGC)
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("long keys, Job")) {
			t.Fatalf("%v: %s", err, out)
		}
		t.Logf("%s", out)
		return
	}
	d, _ := newDesk(t)
	for name, object := range greedy() {
		for _, a := range []ask{{object: object}, {object: object, group: "batch", resource: "jobs", kind: "Job"}} {
			body := a.body()
			if len(body) > settings.DefaultMaxBodyBytes || len(body) < settings.DefaultMaxBodyBytes*9/10 {
				t.Fatalf("%s: the body has %d bytes and should have nearly as many as there may be", name, len(body))
			}
			held := heldBy(func() {
				r := httptest.NewRequest(http.MethodPost, wire.PathMutateJob, bytes.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				d.ServeHTTP(sink{http.Header{}}, r)
			})
			what := name + ", " + cmp.Or(a.kind, "Pod")
			t.Logf("%s: %.1f MiB, %.1f times its length", what, float64(held)/(1<<20), float64(held)/float64(len(body)))
			if most := int64(settings.PerByte * len(body)); held > most {
				t.Errorf("%s: a body of %d bytes makes the heap hold %d, at most %d are allowed", what, len(body), held, most)
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
