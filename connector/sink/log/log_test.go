package log_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
	"github.com/lanyard-k8s/lanyard/connector/sink/log"
)

// jwt has the form of a token and is none.
const jwt = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtYXJrZWQifQ.c2lnbmF0dXJl"

func deliver(t *testing.T, b sink.Batch) string {
	t.Helper()
	var out bytes.Buffer
	s, err := log.New(&out)
	if err != nil {
		t.Fatal(err)
	}
	report, err := s.Deliver(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sink.Report{sink.Written: len(b.Events)}, report); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	return out.String()
}

func TestALineAnEvent(t *testing.T) {
	t.Parallel()
	c := sink.Caller{Username: "system:serviceaccount:gpu:monitor", PodName: "monitor-1", PodUID: "p", Node: "node-a", CredentialID: "JTI=1"}
	b := sink.NewBatch([]*healtheventv1.HealthEvent{
		{
			Agent: "monitor", CheckName: "GpuXidError", NodeName: "node-a", IsFatal: true, Message: "off the bus", ErrorCode: []string{"79"},
			EntitiesImpacted:    []*healtheventv1.Entity{{EntityType: "GPU", EntityValue: "0"}},
			RecommendedAction:   healtheventv1.RecommendedAction_RESTART_BM,
			GeneratedTimestamp:  &timestamppb.Timestamp{Seconds: 1_700_000_000},
			ProcessingStrategy:  healtheventv1.ProcessingStrategy_STORE_ONLY,
			Metadata:            map[string]string{"driver": "580"},
			ComponentClass:      "GPU",
			QuarantineOverrides: &healtheventv1.BehaviourOverrides{Force: true},
		},
		{CheckName: "GpuXidError", NodeName: "node-a", IsHealthy: true},
	}, c, nodebinding.NodeLocal, time.Unix(1_700_000_001, 0).UTC())
	b.Key = "key"
	want := `{"time":"2023-11-14T22:13:21Z","message":"health event","scope":"node_local","caller":"system:serviceaccount:gpu:monitor","pod":"monitor-1","podUID":"p","credential":"JTI=1","idempotencyKey":"key","node":"node-a","agent":"monitor","componentClass":"GPU","check":"GpuXidError","fatal":true,"healthy":false,"text":"off the bus","recommendedAction":"RESTART_BM","processingStrategy":"STORE_ONLY","errorCodes":["79"],"entities":["GPU:0"],"metadata":{"driver":"580"},"generated":"2023-11-14T22:13:20Z"}
{"time":"2023-11-14T22:13:21Z","message":"health event","scope":"node_local","caller":"system:serviceaccount:gpu:monitor","pod":"monitor-1","podUID":"p","credential":"JTI=1","idempotencyKey":"key","node":"node-a","check":"GpuXidError","fatal":false,"healthy":true,"recommendedAction":"NONE"}
`
	if diff := cmp.Diff(want, deliver(t, b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatAnEventSaysStaysOnItsLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10_000)
	for name, e := range map[string]*healtheventv1.HealthEvent{
		"newlines":         {NodeName: "a\nb", Message: "{\"message\":\"forged\"}\n{\"message\":\"health event\"}\r\n", CheckName: "\x00\x1b[31m"},
		"a token":          {Message: "refused Bearer " + jwt + ", sorry", Metadata: map[string]string{jwt: jwt}, ErrorCode: []string{jwt}, Id: jwt, Agent: jwt},
		"long strings":     {Message: long, CheckName: long, NodeName: long, Agent: long, ErrorCode: []string{long}, Metadata: map[string]string{long: long}},
		"long lists":       {ErrorCode: strings.Split(long, ""), EntitiesImpacted: make([]*healtheventv1.Entity, 1000)},
		"invalid UTF-8":    {Message: "\xff\xfe"},
		"a cut token":      {Message: strings.Repeat("x", 2040) + jwt},
		"an unknown enum":  {RecommendedAction: 4711, ProcessingStrategy: 4712},
		"a broken instant": {GeneratedTimestamp: &timestamppb.Timestamp{Seconds: 1 << 60}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := sink.NewBatch([]*healtheventv1.HealthEvent{e}, sink.Caller{}, nodebinding.NodeLocal, time.Unix(0, 0))
			got := deliver(t, b)
			if strings.Count(got, "\n") != 1 || !json.Valid([]byte(got)) {
				t.Errorf("it is no line of JSON: %q", got)
			}
			if strings.Contains(got, "eyJhb") {
				t.Errorf("it has a token: %q", got)
			}
			if len(got) > 24<<10 {
				t.Errorf("it has %d bytes", len(got))
			}
		})
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestABrokenWriterIsTriedAgain(t *testing.T) {
	t.Parallel()
	s, err := log.New(broken{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Deliver(t.Context(), sink.Batch{Events: []*healtheventv1.HealthEvent{{}}})
	if e := sink.Classify(err); e == nil || e.Final || e.Reason != sink.Disk {
		t.Errorf("got %v", err)
	}
	if _, err := log.New(nil); err == nil {
		t.Error("nothing to write to is taken")
	}
}

// TestKeysThatBecomeEqualWhenTheyAreCut has two keys of the metadata differ only behind what is shown of them. A sink that
// cannot write an event is offered it for ever, and with it holds up the spool.
func TestKeysThatBecomeEqualWhenTheyAreCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 2047)
	for name, keys := range map[string][2]string{
		"within a character":  {long + "é", long + "€"},
		"behind the bound":    {long + "k1", long + "k2"},
		"in what is no token": {jwt, jwt + "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line := deliver(t, sink.NewBatch([]*healtheventv1.HealthEvent{{
				CheckName: "GpuXid", NodeName: "node-a", Metadata: map[string]string{keys[0]: "1", keys[1]: "2"},
			}}, sink.Caller{}, nodebinding.NodeLocal, time.Unix(0, 0).UTC()))
			var read struct {
				Metadata map[string]string
				Cut      bool
			}
			if err := json.Unmarshal([]byte(line), &read); err != nil {
				t.Fatal(err)
			}
			if len(read.Metadata) != 1 || !read.Cut {
				t.Errorf("%d entries, cut %t; want one, and that something was left out", len(read.Metadata), read.Cut)
			}
		})
	}
}

// TestALineIsNotSplit makes every part of an event as long as it can be, of characters that grow.
func TestALineIsNotSplit(t *testing.T) {
	t.Parallel()
	for name, letter := range map[string]string{"plain": "x", "escaped": "\x01", "of several bytes": "\u20ac"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			long := strings.Repeat(letter, 5000)
			e := &healtheventv1.HealthEvent{
				Agent: long, ComponentClass: long, CheckName: long, NodeName: long, Message: long, Id: long, Metadata: map[string]string{},
				CustomRecommendedAction: long, RecommendedAction: healtheventv1.RecommendedAction_CUSTOM,
			}
			for i := range 50 {
				e.ErrorCode = append(e.ErrorCode, long)
				e.EntitiesImpacted = append(e.EntitiesImpacted, &healtheventv1.Entity{EntityType: long, EntityValue: long})
				e.Metadata[strings.Repeat(letter, i)] = long
			}
			line := deliver(t, sink.NewBatch([]*healtheventv1.HealthEvent{e}, sink.Caller{Username: strings.Repeat("u", 340)}, nodebinding.NodeLocal, time.Unix(0, 0).UTC()))
			if len(line) > 16<<10 || !json.Valid([]byte(line)) || !strings.Contains(line, `"cut":true`) {
				t.Errorf("%d bytes, valid %t", len(line), json.Valid([]byte(line)))
			}
		})
	}
}

// pieces is a writer that notes how long what it is given is.
type pieces struct {
	sizes []int
	text  strings.Builder
}

func (p *pieces) Write(b []byte) (int, error) {
	p.sizes = append(p.sizes, len(b))
	return p.text.Write(b)
}

// TestALargeBatchIsWrittenInPieces: its lines are not all in the memory at once, and every piece is of whole lines.
func TestALargeBatchIsWrittenInPieces(t *testing.T) {
	t.Parallel()
	var events []*healtheventv1.HealthEvent
	for range 500 {
		events = append(events, &healtheventv1.HealthEvent{CheckName: "GpuXid", Message: strings.Repeat("\x01", 1500)})
	}
	var out pieces
	s, err := log.New(&out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Deliver(t.Context(), sink.NewBatch(events, sink.Caller{}, nodebinding.NodeLocal, time.Time{})); err != nil {
		t.Fatal(err)
	}
	if most := slices.Max(out.sizes); most > (256+16)<<10 || len(out.sizes) < 10 {
		t.Errorf("%d pieces, the largest of %d bytes", len(out.sizes), most)
	}
	if lines := strings.Count(out.text.String(), "}\n{"); lines != 499 {
		t.Errorf("%d lines follow another, want 499", lines)
	}
}
