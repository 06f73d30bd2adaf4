package liveness

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// manyPods is how many pods the memory is measured with; what is reported is for one.
const manyPods = 20_000

// heap is what lives on it.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// shown is the metadata of a pod as a watch of an API server shows it: labels, an owner and what managedFields says of two
// writers, 3 KB as JSON.
func shown(i int) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{"name":"gpu-health-monitor-%05d","generateName":"gpu-health-monitor-",
"namespace":"gpu-monitors","uid":"6a1f9cde-7d4c-4f6f-9d3e-%012d","resourceVersion":"%d","creationTimestamp":"2026-11-30T10:00:00Z",
"labels":{"app":"gpu-health-monitor","controller-revision-hash":"7c9d8f6b5c","lanyard.dev/injected":"publisher","lanyard.dev/role":"publisher","pod-template-generation":"3"},
"annotations":{"lanyard.dev/publisher-containers":"monitor"},
"ownerReferences":[{"apiVersion":"apps/v1","kind":"DaemonSet","name":"gpu-health-monitor","uid":"0b1c2d3e-4f5a-6b7c-8d9e-0f1a2b3c4d5e","controller":true,"blockOwnerDeletion":true}],
"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-11-30T10:00:00Z","fieldsType":"FieldsV1","fieldsV1":%s},
{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2026-11-30T10:00:03Z","fieldsType":"FieldsV1","fieldsV1":%s,"subresource":"status"}]}}`, i, i, 1000+i, writers("f:spec", 60), writers("f:status", 30))
}

// writers is an entry of managedFields with n members.
func writers(under string, n int) []byte {
	members := map[string]any{}
	for i := range n {
		members[fmt.Sprintf("f:memberOfThePod%02d", i)] = map[string]any{}
	}
	out, err := json.Marshal(map[string]any{under: members})
	if err != nil {
		panic(err)
	}
	return out
}

// BenchmarkMemory reports what a pod costs in bytes: while it is listed, while it lives, and after its death.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		p, err := newPods(Options{}, source{})
		if err != nil {
			b.Fatal(err)
		}
		empty := heap()
		listed := make([]any, manyPods)
		for i := range listed {
			o := &metav1.PartialObjectMetadata{}
			if err := json.Unmarshal(shown(i), o); err != nil {
				b.Fatal(err)
			}
			listed[i] = o
		}
		full := heap()
		if err := p.watches[0].Replace(listed, ""); err != nil {
			b.Fatal(err)
		}
		listed = nil
		kept := heap()
		for i := range manyPods {
			gone := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprintf("6a1f9cde-7d4c-4f6f-9d3e-%012d", i))}}
			if err := p.watches[0].Delete(gone); err != nil {
				b.Fatal(err)
			}
		}
		dead := heap()
		if _, n := p.Count(); n != manyPods {
			b.Fatalf("%d dead, want %d", n, manyPods)
		}
		b.ReportMetric(float64(len(shown(1))), "json-B/pod")
		b.ReportMetric(float64(full-empty)/manyPods, "listed-B/pod")
		b.ReportMetric(float64(kept-empty)/manyPods, "live-B/pod")
		b.ReportMetric(float64(dead-empty)/manyPods, "dead-B/pod")
		b.ReportMetric(0, "ns/op")
	}
}
