package reconcile

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// heap is what lives on it.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkMemory reports what the leader keeps in bytes: of a watched object, and of a row.
func BenchmarkMemory(b *testing.B) {
	const many = 20_000
	for b.Loop() {
		empty := heap()
		store := cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, cache.Indexers{})
		for i := range many {
			o, err := bare(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: fmt.Sprintf("team-%03d", i%200), Name: fmt.Sprintf("train-%05d-x7k2p", i),
				UID: types.UID(fmt.Sprintf("6a1f9cde-7d4c-4f6f-9d3e-%012d", i)), ResourceVersion: fmt.Sprint(1_000_000 + i),
			}})
			if err == nil {
				err = store.Add(o)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		watched := heap()
		rows := book{rows: map[string]entry{}}
		for i := range many {
			uid := fmt.Sprintf("6a1f9cde-7d4c-4f6f-9d3e-%012d", i)
			rows.note(delegation.Row{
				Name: delegation.PodName("nemo-platform-api", "system:serviceaccount:team:runner", uid), SubmissionUID: fmt.Sprintf("0b1c2d3e-4f5a-6b7c-8d9e-%012d", i),
				Namespace: fmt.Sprintf("team-%03d", i%200), Bound: delegation.Reference{Value: uid}, ExpiresAt: time.Now(),
			})
		}
		noted := heap()
		runtime.KeepAlive(store)
		runtime.KeepAlive(&rows)
		b.ReportMetric(float64(watched-empty)/many, "B/object")
		b.ReportMetric(float64(noted-watched)/many, "B/row")
		b.ReportMetric(0, "ns/op")
	}
}
