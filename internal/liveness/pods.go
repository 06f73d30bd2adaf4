package liveness

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
//
// It is fed by one watch or by several, of a namespace each, since a right to watch pods may be given for some namespaces
// only. A pod is as trustworthy as the watch that shows it: one that is forbidden, or has broken, spoils no other.
type Pods struct {
	options Options
	watches []*podStore

	// find lists the metadata of the one pod of a name that runs; nil where there is no right to.
	find func(ctx context.Context, namespace, name string) (runtime.Object, error)

	mu    sync.RWMutex
	live  map[string]life   // by UID
	ended map[string]*pulse // by UID, with that of the watch that shows them
	dead  graves
	subs  map[int]func(uid string)
	next  int
}

// life is a pod that has not ended as far as its watch shows.
type life struct {
	deletion int64  // its deletion time in unix nanoseconds, 0 if it has none
	pulse    *pulse // of the watch that shows it
}

// NewNodePods watches every pod of one node, ended ones included: the socket role's pods. The watches are of the namespaces
// given, one each, and the account needs list and watch on pods there; pods elsewhere stay Unknown. Nil is one watch of all
// namespaces, for an account that may watch pods everywhere; an empty list is no watch at all.
func NewNodePods(client kubernetes.Interface, node string, namespaces []string, o Options) (*Pods, error) {
	if client == nil || node == "" {
		return nil, errors.New("liveness: a client and a node's name are needed")
	}
	if namespaces == nil {
		namespaces = []string{metav1.NamespaceAll}
	} else if slices.Contains(namespaces, metav1.NamespaceAll) {
		return nil, errors.New("liveness: a namespace has no name")
	}
	namespaces = slices.Compact(slices.Sorted(slices.Values(namespaces)))
	sources := make([]source, 0, len(namespaces))
	for _, namespace := range namespaces {
		sources = append(sources, nodePods(client, node, namespace))
	}
	return newPods(o, sources...)
}

// nodePods reads the pods of one node in a namespace.
func nodePods(client kubernetes.Interface, node, namespace string) source {
	pods := client.CoreV1().Pods(namespace)
	selector := fields.OneTermEqualSelector("spec.nodeName", node).String()
	return source{
		namespace: namespace,
		list:      func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return pods.List(ctx, o) },
		watch:     func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return pods.Watch(ctx, o) },
		selects:   func(o *metav1.ListOptions) { o.FieldSelector = selector },
		client:    client,
		object:    &corev1.Pod{},
	}
}

// NewLabelledPods watches the metadata of the pods that the webhook has labelled and that have not ended, on any node. Pods that had
// ended before, and those without the label, stay Unknown; Look asks about them. Its account needs list and watch on pods.
func NewLabelledPods(client metadata.Interface, o Options) (*Pods, error) {
	if client == nil {
		return nil, errors.New("liveness: a client is needed")
	}
	s := metadataSource(client, "pods")
	s.selects = func(o *metav1.ListOptions) { o.LabelSelector, o.FieldSelector = wire.LabelInjected, running }
	p, err := newPods(o, s)
	if err != nil {
		return nil, err
	}
	if o.Asking != nil {
		client = o.Asking
	}
	pods := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"})
	p.find = func(ctx context.Context, namespace, name string) (runtime.Object, error) {
		selector := running + "," + fields.OneTermEqualSelector("metadata.name", name).String()
		return pods.Namespace(namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
	}
	return p, nil
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

func newPods(o Options, sources ...source) (*Pods, error) {
	o, err := o.filled()
	if err != nil {
		return nil, err
	}
	p := &Pods{options: o, live: map[string]life{}, ended: map[string]*pulse{}, dead: newGraves(o.Remember, o.MaxDead), subs: map[int]func(string){}}
	for _, s := range sources {
		p.watches = append(p.watches, &podStore{pods: p, source: s, pulse: pulse{silence: o.Silence}})
	}
	return p, nil
}

// Run watches until ctx ends.
func (p *Pods) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for _, s := range p.watches {
		running.Go(func() { mirror(ctx, s.name(), listened{s.source, &s.pulse, p.options.Clock}, s, p.options.Log) })
	}
	running.Wait()
	<-ctx.Done() // without a watch there is nothing else to wait for
	return nil
}

// State answers for a pod by its UID. A pod that lives is Alive while the watch that shows it is to be trusted, whatever
// becomes of the others. It does not block, call or allocate.
func (p *Pods) State(uid string, now time.Time) State {
	p.mu.RLock()
	seen, live := p.live[uid]
	dead := !live && (p.ended[uid] != nil || p.dead.has(uid))
	p.mu.RUnlock()
	switch {
	case dead, live && seen.deletion != 0 && now.UnixNano() > seen.deletion:
		return Dead
	case live && seen.pulse.trusted(now):
		return Alive
	default:
		return Unknown
	}
}

// Trusted says whether every watch is synced and has been heard of lately. It comes and goes with the API server, so it is
// for metrics and no reason not to be ready: verdicts are then confirmed by reviews.
func (p *Pods) Trusted(now time.Time) bool {
	return !slices.ContainsFunc(p.watches, func(s *podStore) bool { return !s.pulse.trusted(now) })
}

// Untrusted names the watches that are not to be trusted now, for the log.
func (p *Pods) Untrusted(now time.Time) []string {
	var names []string
	for _, s := range p.watches {
		if !s.pulse.trusted(now) {
			names = append(names, s.name())
		}
	}
	return names
}

// Age is how long the most silent watch has said nothing, for metrics. A watch before its first sign of life does not count;
// Trusted tells of it.
func (p *Pods) Age(now time.Time) time.Duration {
	age := time.Duration(0)
	for _, s := range p.watches {
		age = max(age, s.pulse.age(now))
	}
	return age
}

// Count is how many pods are known to live and how many to be dead, for metrics and tests.
func (p *Pods) Count() (live, dead int) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.live), len(p.ended) + len(p.dead.at)
}

// Subscribe has f called with the UID of every pod that dies from now on, in the order of their deaths, from the watches' own
// goroutines: f must not block, and is called from several at once where there are several watches. A pod that is only past its deletion time is not announced until its object goes; State
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
