// Package weight says how much a batch of health events is, before it is decoded and after: how many events there are and how
// many parts they have, and what all that takes of a process's memory. The bytes of a message alone say little about that: an
// empty event is two bytes on the wire and a structure of 264, so that a call of four megabytes could hold two million of them.
//
// Whoever takes batches in, keeps or sends them, counts in the same way, so that what one has taken the next one takes, too.
package weight

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
)

// What a batch may hold where nobody says otherwise. Monitors report some hundreds of events at most at a time, with a handful of parts
// each.
const (
	DefaultEvents = 2048
	DefaultParts  = 16384
)

// What things take of the memory besides their bytes, with what allocation rounds up: an event with its time, its overrides and its
// place in the list; the first member of its metadata, which brings a map along; and each part.
const (
	eventBytes = 464
	mapBytes   = 336
	partBytes  = 112
)

// The numbers of the fields that are looked at.
const (
	fieldEvents   protowire.Number = 2
	fieldCodes    protowire.Number = 9
	fieldEntities protowire.Number = 10
	fieldMetadata protowire.Number = 11
)

// Bounds are what one batch may hold. Zero stands for the default.
type Bounds struct {
	// Events bounds the events.
	Events int
	// Parts bounds their error codes, entities and members of metadata, those of all events together.
	Parts int
}

// Weight is how much a batch is.
type Weight struct {
	Events, Parts int
	// Bytes is what the decoded batch takes of the memory, rather too high than too low.
	Bytes int64
}

// Excess is the error of a batch that holds more than it may.
type Excess struct {
	// Field is the one with which the bound is passed, such as "events" or "events[7].metadata".
	Field string
	// Setting is the key of the connector's settings with the bound, and Bound what it is.
	Setting string
	Bound   int
}

// The detail by which a caller tells the refusal of a batch for its size from any other (google.rpc.ErrorInfo).
const (
	ErrorReason = "LANYARD_BATCH_TOO_LARGE"
	ErrorDomain = "lanyard.dev"
)

// Error names the field, the bound and what to do.
func (e *Excess) Error() string {
	what := "events"
	if e.Setting == settingParts {
		what = "error codes, entities and members of metadata"
	}
	return fmt.Sprintf("%s: a batch may have at most %d %s (%s); report in smaller batches", e.Field, e.Bound, what, e.Setting)
}

const (
	settingEvents = "limits.maxEvents"
	settingParts  = "limits.maxParts"
)

// ErrUnreadable is the error of bytes that are no batch.
var ErrUnreadable = errors.New("the bytes are no batch of health events")

// Filled returns the bounds with their defaults.
func (b Bounds) Filled() Bounds {
	if b.Events == 0 {
		b.Events = DefaultEvents
	}
	if b.Parts == 0 {
		b.Parts = DefaultParts
	}
	return b
}

// Most is the highest weight that a message of so many bytes can have within the bounds, in bytes of memory. No event and no part takes
// less than two bytes.
func (b Bounds) Most(bytes int64) int64 {
	b = b.Filled()
	events, parts := min(int64(b.Events), bytes/2), min(int64(b.Parts), bytes/2)
	return heavy(bytes, events, min(events, parts), parts)
}

// heavy adds up: strings are rounded up by less than a half.
func heavy(bytes, events, maps, parts int64) int64 {
	return bytes + bytes/2 + events*eventBytes + maps*mapBytes + parts*partBytes
}

// Scan weighs an encoded batch without decoding it. It allocates nothing, and stops where a bound is passed. The error is an *Excess or
// ErrUnreadable; bytes that pass may still be no batch.
func Scan(raw []byte, b Bounds) (Weight, error) {
	b = b.Filled()
	s := scan{bounds: b}
	for rest := raw; len(rest) > 0; {
		n, typ, size := protowire.ConsumeTag(rest)
		if size < 0 {
			return Weight{}, ErrUnreadable
		}
		rest = rest[size:]
		if n != fieldEvents || typ != protowire.BytesType {
			if size = protowire.ConsumeFieldValue(n, typ, rest); size < 0 {
				return Weight{}, ErrUnreadable
			}
			rest = rest[size:]
			continue
		}
		event, size := protowire.ConsumeBytes(rest)
		if size < 0 {
			return Weight{}, ErrUnreadable
		}
		rest = rest[size:]
		if err := s.event(event); err != nil {
			return Weight{}, err
		}
	}
	return Weight{Events: s.events, Parts: s.parts, Bytes: heavy(int64(len(raw)), int64(s.events), int64(s.maps), int64(s.parts))}, nil
}

// scan counts.
type scan struct {
	bounds              Bounds
	events, parts, maps int
}

func (s *scan) event(raw []byte) error {
	if s.events++; s.events > s.bounds.Events {
		return s.tooManyEvents()
	}
	mapped := false
	for len(raw) > 0 {
		n, typ, size := protowire.ConsumeTag(raw)
		if size < 0 {
			return ErrUnreadable
		}
		raw = raw[size:]
		if size = protowire.ConsumeFieldValue(n, typ, raw); size < 0 {
			return ErrUnreadable
		}
		raw = raw[size:]
		if typ != protowire.BytesType || n < fieldCodes || n > fieldMetadata {
			continue
		}
		if s.parts++; s.parts > s.bounds.Parts {
			return s.tooManyParts(n)
		}
		if n == fieldMetadata && !mapped {
			mapped = true
			s.maps++
		}
	}
	return nil
}

func (s *scan) tooManyEvents() error {
	return &Excess{Field: "events", Setting: settingEvents, Bound: s.bounds.Events}
}

// tooManyParts names the field by its name in the protocol.
func (s *scan) tooManyParts(n protowire.Number) error {
	name := "errorCode"
	switch n {
	case fieldEntities:
		name = "entitiesImpacted"
	case fieldMetadata:
		name = "metadata"
	}
	return &Excess{Field: fmt.Sprintf("events[%d].%s", s.events-1, name), Setting: settingParts, Bound: s.bounds.Parts}
}

// Of weighs events that are decoded.
func Of(events []*healtheventv1.HealthEvent) Weight {
	w, bytes, maps := Weight{Events: len(events)}, int64(0), int64(0)
	for _, e := range events {
		bytes += int64(proto.Size(e))
		w.Parts += PartsOf(e)
		if len(e.GetMetadata()) > 0 {
			maps++
		}
	}
	w.Bytes = heavy(bytes, int64(w.Events), maps, int64(w.Parts))
	return w
}

// PartsOf is how many parts an event has.
func PartsOf(e *healtheventv1.HealthEvent) int {
	return len(e.GetErrorCode()) + len(e.GetEntitiesImpacted()) + len(e.GetMetadata())
}

// Check says whether events that are decoded hold more than they may; the error is an *Excess.
func (b Bounds) Check(events []*healtheventv1.HealthEvent) error {
	s := scan{bounds: b.Filled()}
	for _, e := range events {
		if s.events++; s.events > s.bounds.Events {
			return s.tooManyEvents()
		}
		for i, parts := range [...]int{len(e.GetErrorCode()), len(e.GetEntitiesImpacted()), len(e.GetMetadata())} {
			if s.parts += parts; s.parts > s.bounds.Parts {
				return s.tooManyParts(fieldCodes + protowire.Number(i))
			}
		}
	}
	return nil
}
