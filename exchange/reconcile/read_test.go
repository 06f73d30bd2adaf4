package reconcile

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/lanyard-k8s/lanyard/exchange/provenance"
)

// TestAKindThatIsAwayIsNotUndefined: of a registered API server that does not answer, discovery says nothing but that it failed.
func TestAKindThatIsAwayIsNotUndefined(t *testing.T) {
	t.Parallel()
	const (
		aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
		other      = `{"resource":"others","responseKind":{"group":"others.example","version":"v1","kind":"Other"},"scope":"Namespaced","singularResource":"other","verbs":["get"]}`
		tune       = `{"resource":"tunes","responseKind":{"group":"trainers.example","version":"v1","kind":"Tune"},"scope":"Namespaced","singularResource":"tune","verbs":["get"]}`
	)
	// group is one group in aggregated discovery.
	group := func(freshness, name string, resources ...string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"versions":[{"version":"v1","freshness":%q,"resources":[%s]}]}`, name, freshness, strings.Join(resources, ","))
	}
	list := func(groups ...string) map[string]string {
		return map[string]string{
			"/apis": `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[` + strings.Join(groups, ",") + `]}`,
			"/api":  `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[]}`,
		}
	}
	legacy := func(groups ...string) map[string]string {
		var listed []string
		for _, g := range groups {
			v := fmt.Sprintf(`{"groupVersion":"%s/v1","version":"v1"}`, g)
			listed = append(listed, fmt.Sprintf(`{"name":%q,"versions":[%s],"preferredVersion":%s}`, g, v, v))
		}
		return map[string]string{
			"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[` + strings.Join(listed, ",") + `]}`,
			"/api":  `{"kind":"APIVersions","versions":[]}`,
			"/apis/others.example/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"others.example/v1","resources":[` +
				`{"name":"others","singularName":"other","namespaced":true,"kind":"Other","verbs":["get"]}]}`,
		}
	}
	for name, tc := range map[string]struct {
		kind  string
		pages map[string]string // what is not there answers with 503
		want  string
	}{
		"it is there":                              {aggregated, list(group("Current", "trainers.example", tune)), "found"},
		"its server is away":                       {aggregated, list(group("Current", "others.example", other), group("Stale", "trainers.example")), "away"},
		"it is gone":                               {aggregated, list(group("Current", "others.example")), "undefined"},
		"its group has other kinds now":            {aggregated, list(group("Current", "trainers.example")), "undefined"},
		"it is gone, and another server is away":   {aggregated, list(group("Current", "more.example", other), group("Stale", "others.example")), "undefined"},
		"its server is away, asked one by one":     {"application/json", legacy("others.example", "trainers.example"), "away"},
		"it is gone, asked one by one":             {"application/json", legacy("others.example"), "undefined"},
		"another server is away, asked one by one": {"application/json", legacy("others.example", "more.example"), "undefined"},
		"nothing is told at all":                   {"application/json", nil, "away"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				page, ok := tc.pages[r.URL.Path]
				if !ok {
					http.Error(w, "the server is currently unable to handle the request", http.StatusServiceUnavailable)
					return
				}
				w.Header().Set("Content-Type", tc.kind)
				_, _ = w.Write([]byte(page))
			}))
			defer s.Close()
			r, err := newReads(&rest.Config{Host: s.URL}, &serverClock{now: time.Now}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time there is a cache, which must not decide
				_, err = r.resource(provenance.GroupKind{Group: "trainers.example", Kind: "Tune"})
				got := "away"
				if err == nil {
					got = "found"
				} else if errors.Is(err, errUndefined) {
					got = "undefined"
				}
				if got != tc.want {
					t.Errorf("it is %s (%v), want %s", got, err, tc.want)
				}
			}
		})
	}
}

// TestAKindUnderAnotherResource: a resource that the policies do not match is not read, whatever the API server calls it. What it serves is
// asked for once, and not for each of the kind's objects; it is asked again at the next tick.
func TestAKindUnderAnotherResource(t *testing.T) {
	t.Parallel()
	const pages = `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{"name":"trainers.example"},"versions":[` +
		`{"version":"v1","freshness":"Current","resources":[{"resource":%q,"responseKind":{"group":"trainers.example","version":"v1","kind":"Proxy"},` +
		`"scope":"Namespaced","singularResource":"proxy","verbs":["get"]}]}]}]}`
	var asked atomic.Int64
	var serves atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		switch r.URL.Path {
		case "/api":
			_, _ = w.Write([]byte(`{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[]}`))
		case "/apis":
			asked.Add(1)
			_, _ = fmt.Fprintf(w, pages, serves.Load())
		default:
			http.Error(w, "no", http.StatusForbidden)
		}
	}))
	defer s.Close()
	kind := provenance.GroupKind{Group: "trainers.example", Kind: "Proxy"}
	for guarded, want := range map[string]error{"proxys": errMisnamed, "proxies": nil} {
		serves.Store("proxies")
		asked.Store(0)
		r, err := newReads(&rest.Config{Host: s.URL}, &serverClock{now: time.Now}, map[provenance.GroupKind]string{kind: guarded})
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if got, err := r.resource(kind); !errors.Is(err, want) || (err == nil) != (got.Resource == "proxies") {
				t.Errorf("the policies have %s: got %v, %v", guarded, got, err)
			}
		}
		if _, err := r.object(t.Context(), provenance.Reference{GroupKind: kind, Namespace: "ns", Name: "p", UID: "u"}); want != nil && !errors.Is(err, want) {
			t.Errorf("an object was read: %v", err)
		}
		if got := asked.Load(); got != 1 {
			t.Errorf("the policies have %s: the API server was asked %d times what it serves", guarded, got)
		}
		if want == nil {
			continue
		}
		metrics, err := NewMetrics(prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		w := (&Reconciler{reads: r, options: Options{Log: logr.Discard(), Metrics: metrics, Now: time.Now}}).newWatches()
		w.more(t.Context()) // finds it misnamed
		serves.Store(guarded)
		if _, err := r.resource(kind); !errors.Is(err, want) {
			t.Errorf("between two ticks: %v", err)
		}
		w.more(t.Context())
		if got, err := r.resource(kind); err != nil || got.Resource != guarded {
			t.Errorf("a tick after it was defined anew: %v, %v", got, err)
		}
		w.more(t.Context())
		if got := asked.Load(); got != 2 || len(w.told) > 0 {
			t.Errorf("asked %d times, still told of %v", got, w.told)
		}
	}
}
