package kubernetes

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/connector/sink"
	"github.com/lanyard-k8s/lanyard/connector/sink/kubernetes/conditions"
)

// Options say what the sink may do. Client and Reporter must be given.
type Options struct {
	Client kubernetes.Interface
	// OwnNode is the only node that is written to; empty in the deployment role, which writes to all.
	OwnNode string
	// Foreign are condition types of somebody else's, besides the kubelet's.
	Foreign []string
	// Conditions, Writes and Events bound what is written to one node: how many conditions, and how many writes and Events
	// a minute.
	Conditions, Writes, Events int
	// Reporter names this connector in the Events: its node, or its pod.
	Reporter string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log gets what is refused, at most once a second for each outcome. The zero Logger is silent.
	Log logr.Logger
}

// Sink writes to nodes. Its methods may be called by several goroutines.
type Sink struct {
	o     Options
	rules conditions.Rules

	mu     sync.Mutex
	nodes  map[string]*node
	logged map[sink.Outcome]time.Time
}

// New returns a sink.
func New(o Options) (*Sink, error) {
	if o.Client == nil || o.Reporter == "" {
		return nil, errors.New("kubernetes sink: a client and a reporter's name must be given")
	}
	if o.Conditions <= 0 || o.Writes <= 0 || o.Events < 0 {
		return nil, errors.New("kubernetes sink: the bounds for conditions, writes and Events must be given")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Sink{
		o: o, rules: conditions.Rules{Foreign: o.Foreign, Most: o.Conditions}, nodes: map[string]*node{}, logged: map[sink.Outcome]time.Time{},
	}, nil
}

// Name is sink.Kubernetes.
func (s *Sink) Name() sink.Name { return sink.Kubernetes }

// Deliver shows the batch's events on their nodes, one node after the other. A node that does not take them, or is not there,
// keeps the others from nothing. When the batch is offered again, conditions that are written already are left as they are,
// and an Event that is written already is counted once more.
func (s *Sink) Deliver(ctx context.Context, b sink.Batch) (sink.Report, error) {
	report := sink.Report{}
	for _, group := range s.byNode(b, report) {
		err := s.deliver(ctx, group, b.Caller.Verified(), report)
		if err != nil {
			return report, err
		}
	}
	return report, nil
}

// group are the events of a batch about one node, in their order.
type group struct {
	node   string
	events []*healtheventv1.HealthEvent
}

// byNode sorts out the events that need a look at their node. The others are counted.
func (s *Sink) byNode(b sink.Batch, report sink.Report) []*group {
	var order []*group
	of := map[string]*group{}
	for _, e := range b.Events {
		name := e.GetNodeName()
		o := s.rules.Refuse(e)
		if o == "" && (!wire.DNSSubdomain(name) || s.o.OwnNode != "" && name != s.o.OwnNode) {
			o = sink.RefusedNode
		}
		if o != "" {
			s.count(report, o, name, 1)
			continue
		}
		if of[name] == nil {
			of[name] = &group{node: name}
			order = append(order, of[name])
		}
		of[name].events = append(of[name].events, e)
	}
	return order
}

// count counts events, and logs a refusal if none of its kind was logged within the last second.
func (s *Sink) count(report sink.Report, o sink.Outcome, node string, n int) {
	report[o] += n
	switch o {
	case sink.Written, sink.Unchanged, sink.Skipped:
		return
	}
	now := s.o.Now()
	s.mu.Lock()
	again := now.Sub(s.logged[o]) < time.Second
	if !again {
		s.logged[o] = now
	}
	s.mu.Unlock()
	if !again {
		s.o.Log.Info("an event is not shown on its node", "outcome", o, "node", node[:min(len(node), 253)])
	}
}

// deliver shows events on one node.
func (s *Sink) deliver(ctx context.Context, g *group, verified bool, report sink.Report) error {
	n := s.node(g.node)
	if err := n.lock(ctx); err != nil {
		return err
	}
	defer n.unlock()
	plan, err := s.write(ctx, n, g.events, verified)
	if o, passes := outcomeOf(err); o != "" {
		s.o.Log.V(1).Info("the API server does not take what belongs on a node", "node", g.node, "cause", err.Error())
		s.count(report, o, g.node, len(g.events))
		return nil
	} else if passes != nil {
		return passes
	}
	missed, err := s.record(ctx, n, plan.Events, verified)
	if err != nil {
		return err
	}
	for i, o := range plan.Outcomes {
		if why := missed[i]; why != "" {
			o = why
		}
		s.count(report, o, g.node, 1)
	}
	return nil
}
