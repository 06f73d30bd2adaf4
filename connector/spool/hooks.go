package spool

import (
	"time"

	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// Reason is why a record was put aside; its text is the label "reason" of the metrics.
type Reason string

// The reasons.
const (
	// Corrupt: its length or checksum is wrong.
	Corrupt Reason = "corrupt"
	// Unreadable: its checksum is right and its content is not what a record holds.
	Unreadable Reason = "unreadable"
	// TooLarge: it holds more events, or parts of events, than a batch may; to decode it could take all memory that there is.
	TooLarge Reason = "too_large"
	// ForeignNode: it was made on another node, or on one that had this one's name before.
	ForeignNode Reason = "foreign_node"
	// Refused: it was decided about again, and may not go on.
	Refused Reason = "refused"
	// GivenUp: a sink failed on it again and again, and it held up its publisher's others. The other sinks still get it.
	GivenUp Reason = "given_up"
)

// Reasons lists every reason once, for metrics and documents.
func Reasons() []Reason {
	return []Reason{Corrupt, Unreadable, TooLarge, ForeignNode, Refused, GivenUp}
}

// Hooks are told what happens, for the metrics. They are called by several goroutines at once and must not call the spool.
type Hooks struct {
	// Attempted is called after each attempt to deliver a batch.
	Attempted func(Attempt)
	// Quarantined is called for each record that is put aside.
	Quarantined func(Reason)
	// Torn is called at the start for the end of a segment that was not written to its end, with its size in bytes. What is in it
	// was never acknowledged.
	Torn func(bytes int64)
}

// Attempt is one attempt to deliver a batch to a sink.
type Attempt struct {
	Sink   sink.Name
	Report sink.Report
	Err    *sink.Error // nil after a success
	Took   time.Duration
}

func (h Hooks) attempted(a Attempt) {
	if h.Attempted != nil {
		h.Attempted(a)
	}
}

func (h Hooks) quarantined(r Reason) {
	if h.Quarantined != nil {
		h.Quarantined(r)
	}
}

func (h Hooks) torn(bytes int64) {
	if h.Torn != nil {
		h.Torn(bytes)
	}
}

// Stats are the spool's size at a moment.
type Stats struct {
	// Depth is the number of batches that a sink has yet to get.
	Depth map[sink.Name]int
	// Bytes counts against Limit, and Segments is the number of files.
	Bytes, Limit int64
	Segments     int
	// Oldest is when the oldest batch that a sink has yet to get was received; zero when there is none.
	Oldest time.Time
	// Aside is the number of records that are kept for somebody to look at.
	Aside int
}

// Stats returns the spool's size. It is cheap enough for each collection of metrics.
func (s *Spool) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{Depth: map[sink.Name]int{}, Bytes: s.used, Limit: s.o.Bytes, Segments: len(s.segments), Aside: s.aside.files}
	for _, l := range s.lanes {
		st.Depth[l.sink.Name()] = l.depth
	}
	for _, q := range s.queues {
		for _, at := range q.progress {
			if at.next == q.end() {
				continue
			}
			if t := time.Unix(int64(q.places[at.next-q.base].received), 0); st.Oldest.IsZero() || t.Before(st.Oldest) {
				st.Oldest = t
			}
		}
	}
	return st
}
