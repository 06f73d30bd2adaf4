package mutate_test

import (
	"encoding/json"
	"testing"

	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/mutate/manifest"
	"github.com/lanyard-k8s/lanyard/test/podtest"
)

func corpus() map[string][]byte {
	return map[string][]byte{"small": podtest.Small(), "medium": podtest.Medium(), "large": podtest.Large()}
}

func BenchmarkPod(b *testing.B) {
	rules := testRules()
	for _, size := range []string{"small", "medium", "large"} {
		req := jobRequest(corpus()[size])
		b.Run(size, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(req.Object)))
			for b.Loop() {
				d, err := mutate.Pod(req, rules)
				if err != nil || d.Outcome != mutate.Injected {
					b.Fatal(d.Outcome, err)
				}
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	rules := testRules()
	for _, size := range []string{"small", "medium", "large"} {
		req := jobRequest(corpus()[size])
		d, err := mutate.Pod(req, rules)
		if err != nil {
			b.Fatal(err)
		}
		req.Object = apply(b, req.Object, d.Patch)
		b.Run(size, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(req.Object)))
			for b.Loop() {
				d, err := mutate.Verify(req, rules)
				if err != nil || d.Outcome != mutate.Allowed {
					b.Fatal(d.Outcome, err)
				}
			}
		})
	}
}

// BenchmarkDecode sets the decoder apart from the rules, and BenchmarkNoop is the yardstick: a handler that reads no more
// than the review's uid with encoding/json.
func BenchmarkDecode(b *testing.B) {
	object := podtest.Medium()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := manifest.Decode(object); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNoop(b *testing.B) {
	body := podtest.Review(podtest.Medium())
	b.ReportAllocs()
	for b.Loop() {
		var review struct {
			Request struct {
				UID string `json:"uid"`
			} `json:"request"`
		}
		if err := json.Unmarshal(body, &review); err != nil {
			b.Fatal(err)
		}
	}
}
