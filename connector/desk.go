package connector

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// Options are what a Desk works with.
type Options struct {
	Rules nodebinding.Rules
	Mode  nodebinding.Mode
	// Reviewer is needed unless Mode is Disabled. Nodes may be nil: node UIDs are then not compared.
	Reviewer Reviewer
	Nodes    Nodes
	Intake   Intake
	// Ready says why a deployment should not take batches now; nil means that it always may.
	Ready func() error
	// OverridesNeedToken drops overrides of callers that nobody vouches for.
	OverridesNeedToken bool
	// NodeLocalOnly refuses batches of cross-node scope before they are kept: nobody behind the Intake would take them.
	NodeLocalOnly bool
	// Timeout bounds a call.
	Timeout time.Duration
	Metrics *Metrics
	Recent  *Recent
	Log     logr.Logger
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Desk answers HealthEventOccurredV1.
type Desk struct {
	healtheventv1.UnimplementedPlatformConnectorServer
	Options
	reviewer Reviewer
	nodes    Nodes
	refusals *refusals
	keys     *keys
}

// NewDesk checks that nothing is missing.
func NewDesk(o Options) (*Desk, error) {
	switch {
	case o.Intake == nil || o.Metrics == nil || o.Recent == nil:
		return nil, errors.New("connector: an intake, metrics or the list of violations is missing")
	case o.Mode != nodebinding.Disabled && o.Reviewer == nil:
		return nil, errors.New("connector: a reviewer is missing")
	case o.Rules.Role == "" || o.Mode == "":
		return nil, errors.New("connector: a role or a mode is missing")
	case o.Timeout <= 0:
		return nil, errors.New("connector: a call must be bounded")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Desk{Options: o, reviewer: o.Reviewer, nodes: o.Nodes, refusals: newRefusals(o.Log), keys: newKeys()}, nil
}

// HealthEventOccurredV1 takes a batch in, or says why not. The batch passes as a whole or is refused as a whole.
func (d *Desk) HealthEventOccurredV1(ctx context.Context, in *healtheventv1.HealthEvents) (*emptypb.Empty, error) {
	start := d.Now()
	defer func() { d.Metrics.batchDuration.Observe(d.Now().Sub(start).Seconds()) }()
	var c caller
	var outcome nodebinding.Outcome
	if d.Mode == nodebinding.Disabled {
		outcome = nodebinding.Apply(nodebinding.Decision{Role: d.Rules.Role}, d.Mode, events(in.GetEvents()))
	} else {
		c = d.identify(ctx, start)
		decision := nodebinding.Decide(d.Rules, c.evidence)
		outcome = nodebinding.Apply(decision, d.Mode, events(in.GetEvents()))
		d.record(&c, outcome, in.GetEvents(), start)
	}
	if !outcome.Allowed() {
		return nil, answerTo(outcome)
	}
	if err := d.handOn(ctx, &c, outcome, in.GetEvents(), start); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}

// record counts an outcome, and remembers and logs its violations.
func (d *Desk) record(c *caller, o nodebinding.Outcome, batch events, now time.Time) {
	d.Metrics.decided(o, batch.count())
	if o.CallerViolation == "" && o.BatchViolation == "" {
		return
	}
	who := c.named()
	for _, reason := range [...]nodebinding.Reason{o.CallerViolation, o.BatchViolation} {
		if reason == "" {
			continue
		}
		v := Violation{
			Reason: reason, Caller: who.Username, PodUID: who.PodUID, Credential: who.CredentialID, User: c.user, LetThrough: o.Allowed(),
		}
		if o.Event >= 0 {
			v.Named = shown(batch[o.Event].GetNodeName())
		}
		d.Recent.add(v, now)
		var cause error
		if reason == o.CallerViolation {
			cause = c.err
		}
		d.refusals.note(v, o.Code, cause)
	}
}

// handOn gives an accepted batch to the intake and waits until it may be acknowledged.
func (d *Desk) handOn(ctx context.Context, c *caller, o nodebinding.Outcome, batch events, start time.Time) error {
	key, err := d.idempotencyKey(ctx)
	if err != nil {
		d.Metrics.batches.WithLabelValues(batchInvalid).Inc()
		return err
	}
	if d.Rules.Role == nodebinding.Deployment && d.Ready != nil && d.Ready() != nil {
		d.Metrics.batches.WithLabelValues(batchHeldBack).Inc()
		return status.Error(codes.Unavailable, "the connector is not ready; try again")
	}
	if d.NodeLocalOnly && o.Scope == nodebinding.CrossNode {
		d.Metrics.batches.WithLabelValues(batchHeldBack).Inc()
		return answerToDelivery(sink.Final(sink.CrossNode, nodebinding.PermissionDenied, errors.New("cross-node batch")))
	}
	d.dropOverrides(c, batch)
	b := sink.NewBatch(batch, c.named(), o.Scope, start)
	b.Degraded, b.Key = o.Degraded, key
	if user := connectionOf(ctx).user; user >= 0 && !b.Caller.Verified() {
		b.User = "user " + strconv.FormatInt(user, 10)
	}
	if len(b.Events) > 0 {
		ctx, cancel := context.WithTimeout(ctx, d.Timeout-d.Now().Sub(start))
		defer cancel()
		if err := d.Intake.Append(ctx, b); err != nil {
			d.Metrics.batches.WithLabelValues(batchHeldBack).Inc()
			d.Log.V(1).Info("batch was not kept", "error", err.Error())
			return answerToDelivery(err)
		}
	}
	d.Metrics.accepted(len(b.Events), o.Stamped)
	return nil
}

// dropOverrides takes away what overrides the rules of quarantine and drain, if the caller is not one who may.
func (d *Desk) dropOverrides(c *caller, batch events) {
	if !d.OverridesNeedToken || d.Mode == nodebinding.Disabled || c.evidence.Review == nodebinding.OK {
		return
	}
	for _, e := range batch {
		if e != nil && (e.QuarantineOverrides != nil || e.DrainOverrides != nil) {
			e.QuarantineOverrides, e.DrainOverrides = nil, nil
			d.Metrics.overrides.Inc()
		}
	}
}

// keyAtMost is the longest idempotency key.
const keyAtMost = 128

// idempotencyKey reads the call's key. A deployment demands exactly one. The socket's publishers know none, so that there a
// key that is no good counts as none, and the batch is given one of ours: it is then stored once however often the spool has
// to deliver it.
func (d *Desk) idempotencyKey(ctx context.Context) (string, error) {
	values := metadata.ValueFromIncomingContext(ctx, keyIdempotency)
	if len(values) == 1 && plainKey(values[0]) {
		return values[0], nil
	}
	if d.Rules.Role == nodebinding.Deployment {
		return "", status.Error(codes.InvalidArgument, "the metadata idempotency-key must be given once: 1 to 128 letters, digits, '.', '_', ':' and '-'")
	}
	return d.keys.next(), nil
}

func plainKey(s string) bool {
	if s == "" || len(s) > keyAtMost {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}

// events are a batch as the rule sees it.
type events []*healtheventv1.HealthEvent

// Len is the number of places for events.
func (e events) Len() int { return len(e) }

// Node returns the name in event i.
func (e events) Node(i int) (string, bool) { return e[i].GetNodeName(), e[i] != nil }

// Stamp writes the name into event i.
func (e events) Stamp(i int, name string) { e[i].NodeName = name }

// count is the number of events that there are.
func (e events) count() int {
	n := 0
	for _, one := range e {
		if one != nil {
			n++
		}
	}
	return n
}
