package liveness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/metadata"
)

// Nodes answers for nodes. A node's name is used again when a machine is replaced, and a TokenReview hands out the old
// node's UID without a look; only the live object can tell. Make one with NewNode or NewNodes and run it with Run.
type Nodes struct {
	options Options
	source  source
	pulse   pulse

	mu   sync.RWMutex
	uids map[string]string // by name
}

// NewNode watches the metadata of one node: the socket role's own. Its account needs list and watch on nodes.
func NewNode(client metadata.Interface, name string, o Options) (*Nodes, error) {
	if name == "" {
		return nil, errors.New("liveness: a node's name is needed")
	}
	return newNodes(client, name, o)
}

// NewNodes watches the metadata of all nodes. Its account needs list and watch on nodes.
func NewNodes(client metadata.Interface, o Options) (*Nodes, error) { return newNodes(client, "", o) }

func newNodes(client metadata.Interface, only string, o Options) (*Nodes, error) {
	if client == nil {
		return nil, errors.New("liveness: a client is needed")
	}
	o, err := o.filled()
	if err != nil {
		return nil, err
	}
	s := metadataSource(client, "nodes")
	s.selects = func(o *metav1.ListOptions) {
		if only != "" {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", only).String()
		}
	}
	return &Nodes{pulse: pulse{silence: o.Silence}, options: o, source: s, uids: map[string]string{}}, nil
}

// Run watches until ctx ends.
func (n *Nodes) Run(ctx context.Context) error {
	mirror(ctx, "nodes", listened{n.source, &n.pulse, n.options.Clock}, (*nodeStore)(n), n.options.Log)
	return nil
}

// UID is the live node's, empty if the watch knows none of that name. While the watch is not to be trusted (Trusted) nothing
// follows from it.
func (n *Nodes) UID(name string) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.uids[name]
}

// Trusted says whether the watch is synced and has been heard of lately; see Pods.Trusted.
func (n *Nodes) Trusted(now time.Time) bool { return n.pulse.trusted(now) }

// Age is how long the watch has been silent, for metrics; zero before the first sign of life.
func (n *Nodes) Age(now time.Time) time.Duration { return n.pulse.age(now) }

// nodeStore is Nodes as the reflector sees it.
type nodeStore Nodes

// Add takes in a node that is new to the watch.
func (s *nodeStore) Add(obj any) error { return s.Update(obj) }

// Update takes in a node that has changed.
func (s *nodeStore) Update(obj any) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Errorf("reading a watched node: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uids[m.GetName()] = string(m.GetUID())
	return nil
}

// Delete takes in a node that is gone.
func (s *nodeStore) Delete(obj any) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Errorf("reading a watched node: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.uids, m.GetName())
	return nil
}

// Replace takes in every node that there is.
func (s *nodeStore) Replace(objects []any, _ string) error {
	uids := make(map[string]string, len(objects))
	for _, obj := range objects {
		m, err := meta.Accessor(obj)
		if err != nil {
			return fmt.Errorf("reading a watched node: %w", err)
		}
		uids[m.GetName()] = string(m.GetUID())
	}
	s.mu.Lock()
	s.uids = uids
	s.mu.Unlock()
	s.pulse.sync(s.options.Clock.Now())
	return nil
}

// Resync has nothing to do.
func (s *nodeStore) Resync() error { return nil }
