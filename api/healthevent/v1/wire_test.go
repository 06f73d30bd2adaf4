package healtheventv1_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
)

// unhex reads bytes written down by hand: hex digits in any grouping, "#" up to the line's end is a comment.
func unhex(t *testing.T, text string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatalf("the expected bytes are not hex: %v", err)
	}
	return b
}

// everyField is one batch with every field set, as a publisher built from the original definition puts it on the wire.
// The key of field f with wire type w is the varint f<<3|w.
const everyField = `
	08 01                                  # version = 1: varint 1
	12 6e                                  # events = 2: 110 bytes
	  08 01                                #   version = 1
	  12 03 67706d                         #   agent = 2: "gpm"
	  1a 03 475055                         #   componentClass = 3: "GPU"
	  22 03 586964                         #   checkName = 4: "Xid"
	  28 01                                #   isFatal = 5: true
	  30 01                                #   isHealthy = 6: true
	  3a 02 6869                           #   message = 7: "hi"
	  40 18                                #   recommendedAction = 8: RESTART_BM, 24
	  4a 02 3739                           #   errorCode = 9: "79"
	  4a 02 3438                           #   errorCode = 9: "48"
	  52 0a 0a03 475055 1203 6d7967        #   entitiesImpacted = 10: entityType 1 "GPU", entityValue 2 "myg"
	  52 08 0a03 504349 1201 30            #   entitiesImpacted = 10: "PCI", "0"
	  5a 06 0a01 6b 1201 76                #   metadata = 11: key 1 "k", value 2 "v"
	  62 08 08 80 94 eb dc 03 10 05        #   generatedTimestamp = 12: seconds 1 1000000000, nanos 2 5
	  6a 06 6e6f64652d61                   #   nodeName = 13: "node-a"
	  72 04 0801 1001                      #   quarantineOverrides = 14: force 1, skip 2
	  7a 02 1001                           #   drainOverrides = 15: skip 2
	  8001 03                              #   processingStrategy = 16: STORE_AND_ANALYSE, 3
	  8a01 02 6964                         #   id = 17: "id"
	  9201 06 726570616464                 #   customRecommendedAction = 18: "repadd"
`

func everyFieldMessage() *healtheventv1.HealthEvents {
	return &healtheventv1.HealthEvents{Version: 1, Events: []*healtheventv1.HealthEvent{{
		Version: 1, Agent: "gpm", ComponentClass: "GPU", CheckName: "Xid", IsFatal: true, IsHealthy: true, Message: "hi",
		RecommendedAction: healtheventv1.RecommendedAction_RESTART_BM, ErrorCode: []string{"79", "48"},
		EntitiesImpacted:   []*healtheventv1.Entity{{EntityType: "GPU", EntityValue: "myg"}, {EntityType: "PCI", EntityValue: "0"}},
		Metadata:           map[string]string{"k": "v"},
		GeneratedTimestamp: &timestamppb.Timestamp{Seconds: 1000000000, Nanos: 5}, NodeName: "node-a",
		QuarantineOverrides: &healtheventv1.BehaviourOverrides{Force: true, Skip: true},
		DrainOverrides:      &healtheventv1.BehaviourOverrides{Skip: true},
		ProcessingStrategy:  healtheventv1.ProcessingStrategy_STORE_AND_ANALYSE, Id: "id", CustomRecommendedAction: "repadd",
	}}}
}

func TestEveryFieldStandsWhereThePublishersPutIt(t *testing.T) {
	t.Parallel()
	raw := unhex(t, everyField)
	var got healtheventv1.HealthEvents
	if err := proto.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(everyFieldMessage(), &got, protocmp.Transform()); diff != "" {
		t.Errorf("reading the bytes (-want +got):\n%s", diff)
	}
	if n := len(got.Events[0].ProtoReflect().GetUnknown()); n != 0 {
		t.Errorf("%d bytes were not understood", n)
	}
	again, err := proto.MarshalOptions{Deterministic: true}.Marshal(everyFieldMessage())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(hex.EncodeToString(raw), hex.EncodeToString(again)); diff != "" {
		t.Errorf("writing the message (-want +got):\n%s", diff)
	}
}

func TestWhatIsNotKnownIsKept(t *testing.T) {
	t.Parallel()
	for name, event := range map[string]string{
		"an action that is not in the enum":      "40 2a",   // recommendedAction = 8: 42
		"an action beyond one byte":              "40 e807", // 1000
		"a negative action":                      "40 ffffffffffffffffff01",
		"a strategy that is not in the enum":     "8001 09",               // processingStrategy = 16: 9
		"a field of a later version":             "9a01 03 6e6577",        // 19: "new"
		"a field with a high number":             "c23e 01 78",            // 1000: "x"
		"a field of fixed width":                 "a501 01020304",         // 20: fixed32
		"an unknown field of an entity":          "52 06 1a01 78 0a01 61", // entitiesImpacted: 3 "x", entityType "a"
		"an override that is not known":          "72 02 1801",            // quarantineOverrides: 3 true
		"the numbers that the actions leave out": "40 01",                 // 1
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner := unhex(t, event)
			raw := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), inner)
			var batch healtheventv1.HealthEvents
			if err := proto.Unmarshal(raw, &batch); err != nil {
				t.Fatalf("refused: %v", err)
			}
			batch.Events[0].NodeName = "node-a" // what the connector does to a batch on its way
			out, err := proto.Marshal(&batch)
			if err != nil {
				t.Fatal(err)
			}
			for _, field := range fields(t, inner) {
				if !containsField(t, eventBytes(t, out), field) {
					t.Errorf("%x was lost; what is left: %x", field, out)
				}
			}
		})
	}
}

// eventBytes returns the bytes of the first event of a batch.
func eventBytes(t *testing.T, batch []byte) []byte {
	t.Helper()
	_, _, n := protowire.ConsumeTag(batch)
	event, m := protowire.ConsumeBytes(batch[n:])
	if n < 0 || m < 0 {
		t.Fatalf("not a batch: %x", batch)
	}
	return event
}

// fields splits a message into its fields, key and value together; nested messages are split too, so that the order in
// which known and unknown fields are written does not matter.
func fields(t *testing.T, msg []byte) [][]byte {
	t.Helper()
	var out [][]byte
	for len(msg) > 0 {
		num, typ, n := protowire.ConsumeTag(msg)
		m := protowire.ConsumeFieldValue(num, typ, msg[n:])
		if n < 0 || m < 0 {
			t.Fatalf("not a message: %x", msg)
		}
		if num == 10 && typ == protowire.BytesType {
			inner, _ := protowire.ConsumeBytes(msg[n:])
			out = append(out, fields(t, inner)...)
		} else {
			out = append(out, msg[:n+m])
		}
		msg = msg[n+m:]
	}
	return out
}

func containsField(t *testing.T, msg, field []byte) bool {
	t.Helper()
	for _, f := range fields(t, msg) {
		if string(f) == string(field) {
			return true
		}
	}
	return false
}
