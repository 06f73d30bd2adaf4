package spool

import (
	"fmt"
	"time"

	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// trouble is how one record fares with one sink: the failures in a row for which the record itself may be to blame.
type trouble struct {
	attempts int
	since    time.Time
	taken    int64 // what the sink had taken of all publishers at the first failure
	noAnswer bool  // the way to the other side may be to blame as well
}

// count adds a failure. One that is certainly not the record's fault (no right, too busy, a full disk) starts the count anew.
func (t *trouble) count(why sink.Reason, now time.Time, taken int64) {
	switch why {
	case sink.Internal:
	case sink.Unreachable, sink.Timeout:
		t.noAnswer = true
	default:
		*t = trouble{}
		return
	}
	if t.attempts == 0 {
		t.since, t.taken = now, taken
	}
	t.attempts++
}

// hopeless says whether the record has been offered often and long enough. Where an answer failed to come it must be the
// record's fault and not the other side's or the way's: the sink has taken others meanwhile, as many as the attempts at least.
func (t *trouble) hopeless(attempts int, after time.Duration, now time.Time, taken int64) bool {
	if attempts <= 0 || t.attempts < attempts || now.Sub(t.since) < after {
		return false
	}
	return !t.noAnswer || taken-t.taken >= int64(attempts)
}

// givesUp counts a failure and, when there is no more hope, puts the record aside for one sink. It says whether it did: a
// record that cannot be kept is not dropped but offered again.
func (s *Spool) givesUp(l *lane, p place, t *trouble, r result) bool {
	if r.failed == nil {
		return false
	}
	now, taken := time.Now(), l.taken.Load()
	t.count(r.failed.Reason, now, taken)
	if !t.hopeless(s.o.GiveUpAttempts, s.o.GiveUpAfter, now, taken) {
		return false
	}
	name := fmt.Sprintf("%016x-%08x.%s.record", p.segment.number, p.offset, l.sink.Name())
	if !s.keep(name, r.body) {
		s.o.Log.Error(r.failed, "a batch holds up its publisher's others and cannot be put aside", "sink", l.sink.Name(), "attempts", t.attempts)
		return false
	}
	s.o.Hooks.quarantined(GivenUp)
	s.o.Log.Error(r.failed, "a record is put aside for one sink", "reason", GivenUp, "sink", l.sink.Name(), "record", name,
		"attempts", t.attempts, "seconds", int64(now.Sub(t.since).Seconds()))
	return true
}
