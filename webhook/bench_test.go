package webhook

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/podtest"
)

func corpus() map[string][]byte {
	return map[string][]byte{
		"small": podtest.Review(podtest.Small()), "medium": podtest.Review(podtest.Medium()), "large": podtest.Review(podtest.Large()),
	}
}

// sink is a ResponseWriter that keeps nothing.
type sink struct{ h http.Header }

func (s sink) Header() http.Header         { return s.h }
func (s sink) Write(p []byte) (int, error) { return len(p), nil }
func (s sink) WriteHeader(int)             {}

// again is a body that can be read once more after Reset.
type again struct{ *bytes.Reader }

func (again) Close() error { return nil }

func benchmark(b *testing.B, h http.Handler, path string) {
	for _, size := range []string{"small", "medium", "large"} {
		body := corpus()[size]
		b.Run(size, func(b *testing.B) {
			r := httptest.NewRequest(http.MethodPost, path, nil)
			r.Header.Set("Content-Type", "application/json")
			r.ContentLength = int64(len(body))
			rd := bytes.NewReader(body)
			w := sink{http.Header{}}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				rd.Reset(body)
				r.Body = again{rd}
				h.ServeHTTP(w, r)
			}
		})
	}
}

// BenchmarkHandler is a review's way from body to response on the path that does most.
func BenchmarkHandler(b *testing.B) {
	d, _ := newDesk(b)
	benchmark(b, d, wire.PathMutateJob)
}

// BenchmarkValidate is the same on the validating path.
func BenchmarkValidate(b *testing.B) {
	d, _ := newDesk(b)
	benchmark(b, d, wire.PathValidateJob)
}

// BenchmarkNoop is what no webhook can do without: read the body, decode the uid, answer "allowed". The bar is
// 1.6 times its time on the medium pod.
func BenchmarkNoop(b *testing.B) {
	benchmark(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Request struct {
				UID string `json:"uid"`
			} `json:"request"`
		}
		var buf bytes.Buffer
		if _, err := buf.ReadFrom(r.Body); err != nil {
			b.Fatal(err)
		}
		if err := json.Unmarshal(buf.Bytes(), &in); err != nil {
			b.Fatal(err)
		}
		out, err := json.Marshal(map[string]any{"apiVersion": apiV1, "kind": kindReview,
			"response": map[string]any{"uid": in.Request.UID, "allowed": true}})
		if err != nil {
			b.Fatal(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(out)
	}), "/")
}

func TestMediumPodStaysWithinItsAllocations(t *testing.T) {
	d, _ := newDesk(t)
	body := corpus()["medium"]
	r := httptest.NewRequest(http.MethodPost, wire.PathMutateJob, nil)
	r.Header.Set("Content-Type", "application/json")
	rd := bytes.NewReader(body)
	w := sink{http.Header{}}
	got := testing.AllocsPerRun(50, func() {
		rd.Reset(body)
		r.Body = again{rd}
		d.ServeHTTP(w, r)
	})
	if got > 400 {
		t.Errorf("%.0f allocations, at most 400 are allowed", got)
	}
}
