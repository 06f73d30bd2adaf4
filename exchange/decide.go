package exchange

import (
	"context"
	"errors"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
)

// storeTimeout bounds one read of the row.
const storeTimeout = 2 * time.Second

// decide reads the row and asks what follows; where the pod has not been judged yet, it waits for the judgement.
func (d *Desk) decide(ctx context.Context, q grant.Request, a *asked) {
	d.look(ctx, q, a)
	if a.refusal.Reason == grant.HashMismatch {
		d.callers.charge(a.from, d.now())
	}
	if !unjudged(a.refusal.Reason) || d.settings.Limits.Hold <= 0 {
		return
	}
	start := d.now()
	d.hold(ctx, q, a)
	a.held = d.now().Sub(start)
}

// unjudged says whether a judgement may still come.
func unjudged(why grant.Reason) bool { return why == grant.RowAbsent || why == grant.RowPending }

// hold looks again whenever the row is judged, for as long as a request is held. No seat means an answer at once: 503, to come again.
func (d *Desk) hold(ctx context.Context, q grant.Request, a *asked) {
	seat, err := d.room.Enter(a.proof.Name)
	if err != nil {
		d.metrics.held.WithLabelValues(heldFull).Inc()
		return
	}
	defer seat.Leave()
	limit, cancel := context.WithTimeout(ctx, d.settings.Limits.Hold)
	defer cancel()
	defer context.AfterFunc(d.closing, cancel)() // the process may be told to stop meanwhile
	for {
		d.look(ctx, q, a) // after the seat was taken: a judgement in between is not missed
		if !unjudged(a.refusal.Reason) {
			d.metrics.held.WithLabelValues(heldJudged).Inc()
			return
		}
		if seat.Wait(limit) != nil {
			d.metrics.held.WithLabelValues(heldOver).Inc()
			return
		}
	}
}

// look reads the row and decides. There is no cache: a revocation counts from the next look on.
func (d *Desk) look(ctx context.Context, q grant.Request, a *asked) {
	standing, why := d.standing(ctx, a.proof.Name)
	if why != "" {
		a.refuse(why)
		return
	}
	a.uid = standing.Submission.UID
	about := d.settings.Subjects[standing.Submission.Submitter]
	decision := grant.Decide(d.rules, a.proof, standing.Row, standing.Submission, about, q, d.now())
	a.refusal, a.claims = decision.Refusal, decision.Claims
	if decision.Claims != nil {
		a.subject = decision.Claims.Subject
		d.metrics.dropped.Add(float64(decision.Dropped))
	}
}

// standing reads the row. No row is the zero Standing, which is decided upon like any other.
func (d *Desk) standing(ctx context.Context, row string) (delegation.Standing, grant.Reason) {
	got, err := readRow(ctx, d.store, row)
	switch {
	case err == nil:
		return got, ""
	case errors.Is(err, delegation.ErrNotFound):
		return delegation.Standing{}, ""
	case !contextDone(ctx, err):
		d.log.Error(err, "the row cannot be read")
	}
	return delegation.Standing{}, grant.StoreUnavailable
}

func readRow(ctx context.Context, store delegation.Reader, row string) (delegation.Standing, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return store.Get(ctx, row)
}
