// Package log is the sink that writes one JSON line an event, for people and for whatever collects a container's output.
//
// What an event says was chosen by its publisher, so that it is escaped by JSON, cut where it is long, and anything in it
// that looks like a token is taken out: publishers have put their own credentials into messages before.
package log

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// Bounds of a line. A container runtime splits lines of more than 16 KiB, and what follows the split, which a publisher could
// choose, would look like a line of its own.
const (
	maxText    = 2048     // bytes of one string
	maxEntries = 16       // of each list and map
	maxTexts   = 12 << 10 // bytes of all strings of an event, as they stand in the line
)

// Sink writes to one writer.
type Sink struct {
	mu  sync.Mutex
	out io.Writer
}

// New returns a sink that writes to out, each batch in one call unless it is long.
func New(out io.Writer) (*Sink, error) {
	if out == nil {
		return nil, errors.New("log sink: nothing is given to write to")
	}
	return &Sink{out: out}, nil
}

// Name is sink.Log.
func (s *Sink) Name() sink.Name { return sink.Log }

// pieceBytes is how much is written at a time: the lines of a large batch together can be several times its size.
const pieceBytes = 256 << 10

// Deliver writes the batch's lines.
func (s *Sink) Deliver(_ context.Context, b sink.Batch) (sink.Report, error) {
	var lines bytes.Buffer
	for i, e := range b.Events {
		if err := json.MarshalWrite(&lines, lineOf(b, e), jsontext.AllowInvalidUTF8(true), json.Deterministic(true)); err != nil {
			// It will not be encoded another time either. The encoder's error may quote the event.
			return nil, sink.Final(sink.Refused, nodebinding.InvalidArgument, errors.New("an event cannot be written as JSON"))
		}
		lines.WriteByte('\n')
		if lines.Len() < pieceBytes && i < len(b.Events)-1 {
			continue
		}
		if err := s.write(lines.Bytes()); err != nil {
			return nil, err
		}
		lines.Reset()
	}
	return sink.Report{sink.Written: len(b.Events)}, nil
}

func (s *Sink) write(lines []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.out.Write(lines); err != nil {
		return sink.Retry(sink.Disk, fmt.Errorf("write lines: %w", err))
	}
	return nil
}

// line is what is written about one event.
type line struct {
	Time       time.Time         `json:"time"` // when the batch was received
	Message    string            `json:"message"`
	Scope      string            `json:"scope,omitzero"`
	Degraded   bool              `json:"degraded,omitzero"`
	Caller     string            `json:"caller,omitzero"`
	Pod        string            `json:"pod,omitzero"`
	PodUID     string            `json:"podUID,omitzero"`
	Credential string            `json:"credential,omitzero"`
	Key        string            `json:"idempotencyKey,omitzero"`
	Node       string            `json:"node"`
	Agent      string            `json:"agent,omitzero"`
	Component  string            `json:"componentClass,omitzero"`
	Check      string            `json:"check"`
	Fatal      bool              `json:"fatal"`
	Healthy    bool              `json:"healthy"`
	Text       string            `json:"text,omitzero"`
	Action     string            `json:"recommendedAction,omitzero"`
	Strategy   string            `json:"processingStrategy,omitzero"`
	Codes      []string          `json:"errorCodes,omitzero"`
	Entities   []string          `json:"entities,omitzero"`
	Metadata   map[string]string `json:"metadata,omitzero"`
	Generated  time.Time         `json:"generated,omitzero"`
	ID         string            `json:"id,omitzero"`
	Cut        bool              `json:"cut,omitzero"` // something was left out
}

func lineOf(b sink.Batch, e *healtheventv1.HealthEvent) line {
	c := cutter{left: maxTexts}
	l := line{
		Time: b.Received, Message: "health event", Scope: string(b.Scope), Degraded: b.Degraded, Caller: b.Caller.Username,
		Pod: b.Caller.PodName, PodUID: b.Caller.PodUID, Credential: b.Caller.CredentialID, Key: c.text(b.Key),
		ID: c.text(e.GetId()), Node: c.text(e.GetNodeName()), Agent: c.text(e.GetAgent()), Component: c.text(e.GetComponentClass()),
		Check: c.text(e.GetCheckName()), Fatal: e.GetIsFatal(), Healthy: e.GetIsHealthy(), Text: c.text(e.GetMessage()),
		Action: c.action(e), Codes: c.list(e.GetErrorCode()), Entities: c.entities(e.GetEntitiesImpacted()),
		Metadata: c.members(e.GetMetadata()),
	}
	if e.GetProcessingStrategy() != healtheventv1.ProcessingStrategy_UNSPECIFIED {
		l.Strategy = e.GetProcessingStrategy().String()
	}
	if t := e.GetGeneratedTimestamp(); t.CheckValid() == nil {
		l.Generated = t.AsTime()
	}
	l.Cut = c.cut
	return l
}

// token is anything of the form of a JSON web token.
var token = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{4,}(\.[A-Za-z0-9_-]*)*`)

// cutter shortens what is long and remembers that it did.
type cutter struct {
	left int // of maxTexts
	cut  bool
}

func (c *cutter) text(s string) string {
	s = c.first(s, maxText)
	s = token.ReplaceAllLiteralString(s, "[token]")
	if quotedSize(s) > c.left {
		s = c.first(s, c.left/6) // the most that a byte grows to
	}
	c.left -= quotedSize(s)
	return s
}

// first is as much of a string as so many bytes hold.
func (c *cutter) first(s string, most int) string {
	if len(s) <= most {
		return s
	}
	c.cut = true
	return strings.ToValidUTF8(s[:most], "")
}

// quotedSize is how long a string is in JSON, its quotes left aside.
func quotedSize(s string) int {
	quoted, _ := jsontext.AppendQuote(nil, s)
	return len(quoted) - 2
}

func (c *cutter) list(in []string) []string {
	if len(in) > maxEntries {
		in, c.cut = in[:maxEntries], true
	}
	var out []string
	for _, s := range in {
		out = append(out, c.text(s))
	}
	return out
}

func (c *cutter) entities(in []*healtheventv1.Entity) []string {
	var out []string
	for i, e := range in {
		if i == maxEntries {
			c.cut = true
			break
		}
		out = append(out, c.text(e.GetEntityType()+":"+e.GetEntityValue()))
	}
	return out
}

// members shortens a map. Keys that are equal once they are shortened are one key; of their values the first is shown.
func (c *cutter) members(in map[string]string) map[string]string {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]string, min(len(in), maxEntries))
	for _, k := range slices.Sorted(maps.Keys(in)) {
		if len(out) == maxEntries {
			c.cut = true
			break
		}
		key := strings.ToValidUTF8(c.text(k), "\uFFFD")
		if _, taken := out[key]; taken {
			c.cut = true
			continue
		}
		out[key] = c.text(in[k])
	}
	return out
}

func (c *cutter) action(e *healtheventv1.HealthEvent) string {
	if e.GetRecommendedAction() == healtheventv1.RecommendedAction_CUSTOM && e.GetCustomRecommendedAction() != "" {
		return c.text(e.GetCustomRecommendedAction())
	}
	return e.GetRecommendedAction().String()
}
