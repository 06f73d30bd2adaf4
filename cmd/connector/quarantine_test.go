package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
	"github.com/lanyard-k8s/lanyard/connector/spool"
)

func TestALineSaysWhoseABatchIsAndWhatItHolds(t *testing.T) {
	t.Parallel()
	b := sink.NewBatch([]*healtheventv1.HealthEvent{{CheckName: "GpuXidError", NodeName: "node-a", IsFatal: true}, {CheckName: "GpuTemp"}},
		sink.Caller{Username: "system:serviceaccount:gpu:monitor", PodName: "monitor-1", Node: "node-a"}, nodebinding.NodeLocal, time.Unix(1_800_000_000, 0).UTC())
	text, err := json.Marshal(line(spool.Kept{File: "1.forward.record", Batch: b}))
	if err != nil {
		t.Fatal(err)
	}
	// protojson varies its white space on purpose.
	got := strings.ReplaceAll(string(text), " ", "")
	const want = `{"file":"1.forward.record","received":"2027-01-15T08:00:00Z","caller":"system:serviceaccount:gpu:monitor","pod":"monitor-1","node":"node-a",` +
		`"scope":"node_local","events":[{"checkName":"GpuXidError","isFatal":true,"nodeName":"node-a"},{"checkName":"GpuTemp"}]}`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestABatchSteersNoTerminal: its texts are a publisher's.
func TestABatchSteersNoTerminal(t *testing.T) {
	t.Parallel()
	const theirs = "a\u009b2J\x1b[2J\u202eb\n"
	b := sink.NewBatch([]*healtheventv1.HealthEvent{{CheckName: theirs}}, sink.Caller{}, nodebinding.NodeLocal, time.Now())
	var out strings.Builder
	if err := show(&out, []spool.Kept{{File: "1.record", Batch: b}}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\u009b\x1b\u202e") || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("%q", out.String())
	}
	var back struct{ Events []struct{ CheckName string } }
	if err := json.Unmarshal([]byte(out.String()), &back); err != nil || len(back.Events) != 1 || back.Events[0].CheckName != theirs {
		t.Errorf("read back: %+v, %v", back, err)
	}
}
