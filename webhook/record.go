package webhook

import (
	"strconv"
	"time"

	"github.com/lanyard-k8s/lanyard/internal/obs"
	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
)

// record counts and logs one answered request. Only the review's own labels and typed words are used; the object, its
// names included, is out of bounds here.
func (d *Desk) record(h hook, rv *review, v *verdict, took time.Duration) {
	m := d.metrics
	m.duration.WithLabelValues(h.name).Observe(took.Seconds())
	m.requests.WithLabelValues(h.name, d.resourceLabel(rv), operationLabel(rv), string(v.outcome), strconv.FormatBool(rv.dryRun)).Inc()
	for _, x := range v.decision.Violations {
		m.violations.WithLabelValues(string(x.Reason), string(d.modeOf(x.Reason))).Inc()
	}
	if h.mutating {
		d.recordInjections(v)
	}
	d.write(h, rv, v)
}

func (d *Desk) recordInjections(v *verdict) {
	switch v.outcome {
	case mutate.Injected, mutate.Already, mutate.Audited, mutate.Denied:
		for _, role := range v.decision.Roles {
			d.metrics.injections.WithLabelValues(string(role), string(v.outcome)).Inc()
		}
	}
}

// modeOf is the mode by which a violation was judged: reasons that audit does not loosen are always enforced.
func (d *Desk) modeOf(r violation.Reason) mutate.Mode {
	if d.rules.Mode == mutate.Audit && r.Loosened() {
		return mutate.Audit
	}
	return mutate.Enforce
}

func (d *Desk) resourceLabel(rv *review) string {
	name := rv.resource
	if rv.subresource != "" {
		name += "/" + rv.subresource
	}
	if label, ok := d.resources[name]; ok {
		return label
	}
	return other
}

func operationLabel(rv *review) string {
	switch op := mutate.Operation(rv.operation); op {
	case mutate.Create, mutate.Update:
		return string(op)
	default:
		return other
	}
}

// write logs refusals and what could not be read at info, the rest at debug.
func (d *Desk) write(h hook, rv *review, v *verdict) {
	if len(v.decision.Violations) == 0 && v.outcome.Allows() {
		if log := d.log.V(1); log.Enabled() {
			log.Info("request answered", "hook", h.name, "decision", v.outcome, obs.KeyUID, clip(rv.uid, 64),
				obs.KeyNamespace, clip(rv.namespace, 64), obs.KeyCaller, clip(rv.username, 256), "dryRun", rv.dryRun)
		}
		return
	}
	fields := make([]string, 0, len(v.decision.Violations))
	for _, x := range v.decision.Violations[:min(len(v.decision.Violations), maxViolations)] {
		fields = append(fields, x.Field)
	}
	d.log.Info("request refused or violating", "hook", h.name, "decision", v.outcome, obs.KeyReasons, reasonsOf(v.decision.Violations),
		obs.KeyFields, fields, "cause", v.cause, obs.KeyUID, clip(rv.uid, 64), obs.KeyNamespace, clip(rv.namespace, 64),
		obs.KeyCaller, clip(rv.username, 256), "operation", operationLabel(rv), "resource", d.resourceLabel(rv), "dryRun", rv.dryRun)
}
