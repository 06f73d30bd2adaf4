package connector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// ErrNoFence means that nothing in the API server keeps this connector's account to its own node and its own conditions.
var ErrNoFence = errors.New("the cluster lacks the policy that keeps a socket connector's account to its own node and its own conditions; " +
	"install the chart's policies, or set sinks.kubernetes.enabled: false")

// The conditions that a fence is tried with. The first is no condition of ours under any settings.
const (
	probeForeignType = "lanyard.dev/fence-probe"
	probeOwnType     = "LanyardFenceProbe"
)

// Fence makes sure, before the kubernetes sink of a socket connector writes anything, that the API server would refuse what
// this connector must never do. It tries it, by a dry run: a policy that exists under some name and does not match this
// account would be no fence. It needs no right that the sink does not need, but for "list" on nodes.
type Fence struct {
	client kubernetes.Interface
	node   string
	every  time.Duration
	grace  time.Duration
	log    logr.Logger
	stands atomic.Bool
}

// fenceGrace is how long a policy may take to come into force: it is installed with the connector, and API servers notice
// a new one within seconds.
const fenceGrace = 15 * time.Second

// NewFence returns a Fence for the connector of a node.
func NewFence(client kubernetes.Interface, node string, log logr.Logger) *Fence {
	return &Fence{client: client, node: node, every: 2 * time.Second, grace: fenceGrace, log: log}
}

// Run tries the fence until it is known to stand, and returns nil then; or ErrNoFence, if it still does not after a while. An
// API server that is away is waited for.
func (f *Fence) Run(ctx context.Context) error {
	for begin := time.Now(); ; {
		err := f.try(ctx)
		switch {
		case err == nil:
			f.stands.Store(true)
			f.log.Info("the policy for socket connectors is in force")
			return nil
		case errors.Is(err, ErrNoFence) && time.Since(begin) >= f.grace:
			return err
		}
		f.log.Error(err, "the policy for socket connectors could not be tried; node conditions wait")
		timer := time.NewTimer(f.every)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// try does what must be refused: a condition that is not ours on the own node, and any condition on another.
func (f *Fence) try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := f.refused(ctx, f.node, probeForeignType); err != nil {
		return err
	}
	nodes, err := f.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 2})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	for _, other := range nodes.Items {
		if other.Name != f.node {
			return f.refused(ctx, other.Name, probeOwnType)
		}
	}
	return nil // there is no other node to do harm to
}

// refused is nil when the API server's policies refuse a condition.
func (f *Fence) refused(ctx context.Context, node, condition string) error {
	body := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"Unknown","reason":"FenceProbe"}]}}`, condition)
	_, err := f.client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, []byte(body),
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
	switch {
	case err == nil:
		return ErrNoFence
	case (apierrors.IsForbidden(err) || apierrors.IsInvalid(err)) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy"):
		return nil
	default:
		return fmt.Errorf("try the policy for socket connectors: %w", err)
	}
}

// Around returns the sink behind the fence: until it is known to stand, nothing is delivered.
func (f *Fence) Around(s sink.Sink) sink.Sink { return fenced{s, f} }

type fenced struct {
	sink.Sink
	fence *Fence
}

// Deliver delivers once the fence stands.
func (s fenced) Deliver(ctx context.Context, b sink.Batch) (sink.Report, error) {
	if !s.fence.stands.Load() {
		return nil, sink.Retry(sink.Unreachable, errors.New("the policy for socket connectors has not been tried yet"))
	}
	return s.Sink.Deliver(ctx, b)
}
