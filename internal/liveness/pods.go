package liveness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// running selects pods that have not ended. A pod that ends leaves such a watch, which arrives as its deletion: that is how
// a metadata-only watch, which shows no phase, learns of it.
const running = "status.phase!=Succeeded,status.phase!=Failed"

// Pods answers for pods. Make one with NewNodePods or NewLabelledPods, run it with Run, and ask it from any goroutine.
type Pods struct {
	options Options
	source  source
	pulse   pulse

	mu   sync.RWMutex
	live map[string]int64 // UID to deletion time in unix nanoseconds, 0 if it has none
	dead graves
	subs map[int]func(uid string)
	next int
}

// NewNodePods watches every pod of one node, ended ones included: the socket role's pods.
// Its account needs list and watch on pods.
func NewNodePods(client kubernetes.Interface, node string, o Options) (*Pods, error) {
	if client == nil || node == "" {
		return nil, errors.New("liveness: a client and a node's name are needed")
	}
	pods := client.CoreV1().Pods(metav1.NamespaceAll)
	selector := fields.OneTermEqualSelector("spec.nodeName", node).String()
	return newPods(source{
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return pods.List(ctx, o) },
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, o)
		},
		selects: func(o *metav1.ListOptions) { o.FieldSelector = selector },
		client:  client,
		object:  &corev1.Pod{},
	}, o)
}

// NewLabelledPods watches the metadata of the pods that the webhook has labelled and that have not ended, on any node.
// Its account needs list and watch on pods.
func NewLabelledPods(client metadata.Interface, o Options) (*Pods, error) {
	if client == nil {
		return nil, errors.New("liveness: a client is needed")
	}
	s := metadataSource(client, "pods")
	s.selects = func(o *metav1.ListOptions) { o.LabelSelector, o.FieldSelector = wire.LabelInjected, running }
	return newPods(s, o)
}

// metadataSource reads the metadata of a core resource in all namespaces.
func metadataSource(client metadata.Interface, resource string) source {
	r := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource})
	return source{
		list:   func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return r.List(ctx, o) },
		watch:  func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return r.Watch(ctx, o) },
		client: client,
		object: &metav1.PartialObjectMetadata{},
	}
}

func newPods(s source, o Options) (*Pods, error) {
	o, err := o.filled()
	if err != nil {
		return nil, err
	}
	return &Pods{
		pulse: pulse{silence: o.Silence}, options: o, source: s, live: map[string]int64{}, dead: newGraves(o.Remember, o.MaxDead), subs: map[int]func(string){},
	}, nil
}

// Run watches until ctx ends.
func (p *Pods) Run(ctx context.Context) error {
	mirror(ctx, "pods", listened{p.source, &p.pulse, p.options.Clock}, (*podStore)(p), p.options.Log)
	return nil
}

// State answers for a pod by its UID. It does not block, call or allocate.
func (p *Pods) State(uid string, now time.Time) State {
	p.mu.RLock()
	deletion, live := p.live[uid]
	dead := !live && p.dead.has(uid)
	p.mu.RUnlock()
	switch {
	case dead, live && deletion != 0 && now.UnixNano() > deletion:
		return Dead
	case live && p.pulse.trusted(now):
		return Alive
	default:
		return Unknown
	}
}

// Synced says whether everything has been read once; readiness at start asks it.
func (p *Pods) Synced() bool { return p.pulse.read() }

// Trusted says whether the watch is synced and has been heard of lately. It comes and goes with the API server, so it is for
// metrics and no reason not to be ready: verdicts are then confirmed by reviews.
func (p *Pods) Trusted(now time.Time) bool { return p.pulse.trusted(now) }

// Age is how long the watch has been silent, for metrics; zero before the first sign of life.
func (p *Pods) Age(now time.Time) time.Duration { return p.pulse.age(now) }

// Count is how many pods are known to live and how many to be dead, for metrics and tests.
func (p *Pods) Count() (live, dead int) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.live), len(p.dead.at)
}

// Subscribe has f called with the UID of every pod that dies from now on, in the order of their deaths, from the watch's own
// goroutine: f must not block. A pod that is only past its deletion time is not announced until its object goes; State
// knows. The returned function ends the subscription.
func (p *Pods) Subscribe(f func(uid string)) (cancel func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := p.next
	p.next++
	p.subs[id] = f
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.subs, id)
	}
}

// String keeps UIDs out of whatever prints it.
func (p *Pods) String() string {
	live, dead := p.Count()
	return fmt.Sprintf("liveness.Pods(%d live, %d dead)", live, dead)
}
