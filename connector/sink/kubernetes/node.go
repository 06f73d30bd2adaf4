package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/sink"
	"github.com/lanyard-k8s/lanyard/connector/sink/kubernetes/conditions"
)

const (
	// knownFor is how long what was read of a node is believed when it means that nothing is to be written.
	knownFor = 10 * time.Second
	// nodesMost bounds the nodes that are remembered.
	nodesMost = 1024
	// conflictsMost is how often in a row somebody else may be faster.
	conflictsMost = 5
)

// errNoNode means that there is no such node.
var errNoNode = errors.New("there is no such node")

// node is what is remembered of one node. All but name and used is held by whoever has the lock.
type node struct {
	name string
	used time.Time // under the sink's lock
	held chan struct{}

	read       time.Time // zero: nothing is known
	uid        types.UID
	version    string
	conditions []corev1.NodeCondition
	writes     window
	events     window
	recorded   map[string]int32 // by an Event's name, how often it happened
}

func (n *node) lock(ctx context.Context) error {
	select {
	case n.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		return sink.Retry(sink.Timeout, fmt.Errorf("wait for a node: %w", ctx.Err()))
	}
}

func (n *node) unlock() { <-n.held }

// node returns what is remembered of a node, and forgets the one that was used least recently when there are too many.
func (s *Sink) node(name string) *node {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[name]
	if n == nil {
		if len(s.nodes) >= nodesMost {
			s.forget()
		}
		n = &node{name: name, held: make(chan struct{}, 1), recorded: map[string]int32{}}
		s.nodes[name] = n
	}
	n.used = s.o.Now()
	return n
}

func (s *Sink) forget() {
	var oldest *node
	for _, n := range s.nodes {
		if len(n.held) == 0 && (oldest == nil || n.used.Before(oldest.used)) {
			oldest = n
		}
	}
	if oldest != nil {
		delete(s.nodes, oldest.name)
	}
}

// write brings the node's conditions to what the events ask for. It reads the node, unless what it knows already is fresh,
// and writes only when something changes. Checks that have been written too often within the minute wait, and the batch with them; what it
// says of others is written.
func (s *Sink) write(ctx context.Context, n *node, events []*healtheventv1.HealthEvent, verified bool) (conditions.Plan, error) {
	now, rules := s.o.Now(), s.rules
	rules.Most = open(rules.Most, verified)
	throttled := sink.Retry(sink.Throttled, errors.New("the node has been written to as often as it may be in a minute"))
	waits := false
	for range conflictsMost {
		if now.Sub(n.read) >= knownFor {
			if err := s.readNode(ctx, n); err != nil {
				return conditions.Plan{}, err
			}
		}
		plan := conditions.Decide(rules, n.conditions, events, now)
		if len(plan.Conditions) == 0 && waits {
			return conditions.Plan{}, throttled
		} else if len(plan.Conditions) == 0 {
			return plan, nil
		}
		if busy := n.writes.busy(now, s.o.Writes, verified, checksOf(plan.Conditions)); len(busy) > 0 {
			events, waits = without(events, busy), true
			continue
		}
		if !n.writes.take(now, s.o.Writes, verified, checksOf(plan.Conditions)...) {
			return conditions.Plan{}, throttled
		}
		err := s.patch(ctx, n, plan.Conditions)
		switch {
		case err == nil && waits:
			return conditions.Plan{}, throttled
		case !apierrors.IsConflict(err):
			return plan, err
		}
	}
	return conditions.Plan{}, sink.Retry(sink.Conflict, errors.New("others change the node again and again"))
}

// checksOf are the types of conditions, which are the names of the checks.
func checksOf(changed []corev1.NodeCondition) []string {
	checks := make([]string, 0, len(changed))
	for _, c := range changed {
		checks = append(checks, string(c.Type))
	}
	return checks
}

// without are the events of other checks than these.
func without(events []*healtheventv1.HealthEvent, checks []string) []*healtheventv1.HealthEvent {
	return slices.DeleteFunc(slices.Clone(events), func(e *healtheventv1.HealthEvent) bool { return slices.Contains(checks, e.GetCheckName()) })
}

// readNode lists the one node: "get" is a right that the deployment role does not have.
func (s *Sink) readNode(ctx context.Context, n *node) error {
	list, err := s.o.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", n.name).String(), Limit: 2,
	})
	if err != nil {
		return err
	}
	for _, found := range list.Items {
		if found.Name == n.name {
			s.remember(n, &found)
			return nil
		}
	}
	return errNoNode
}

func (s *Sink) remember(n *node, found *corev1.Node) {
	if n.uid != found.UID {
		clear(n.recorded) // another machine under the same name
	}
	n.read, n.uid, n.version, n.conditions = s.o.Now(), found.UID, found.ResourceVersion, found.Status.Conditions
}

// patch writes conditions by their types, if the node is still as it was read.
func (s *Sink) patch(ctx context.Context, n *node, changed []corev1.NodeCondition) error {
	n.read = time.Time{} // not known, until the answer says
	type meta struct {
		ResourceVersion string `json:"resourceVersion"`
	}
	type status struct {
		Conditions []corev1.NodeCondition `json:"conditions"`
	}
	body, err := json.Marshal(struct {
		Metadata meta   `json:"metadata"`
		Status   status `json:"status"`
	}{meta{n.version}, status{changed}})
	if err != nil {
		return fmt.Errorf("encode conditions: %w", err)
	}
	found, err := s.o.Client.CoreV1().Nodes().Patch(ctx, n.name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	if err != nil {
		return err
	}
	s.remember(n, found)
	return nil
}
