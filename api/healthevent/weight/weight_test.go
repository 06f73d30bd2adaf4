package weight_test

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/api/healthevent/weight"
)

// event is an encoded event of these bytes, as a field of a batch.
func event(body []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), body)
}

// field is a field of bytes.
func field(n protowire.Number, body string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), body)
}

// maximal are messages that take as much memory as their bounds let them, in one way or another.
func maximal() map[string][]byte {
	const size = 4 << 20
	full := func(one []byte, most int) []byte { return bytes.Repeat(one, min(most, size/len(one))) }
	member := string(field(1, "ab")) + string(field(2, "cd"))
	odd := strings.Repeat("x", 9)
	return map[string][]byte{
		"empty events":                   full(event(nil), weight.DefaultEvents),
		"events with all that is single": full(event(bytes.Join([][]byte{field(12, ""), field(14, ""), field(15, ""), field(11, "")}, nil)), weight.DefaultEvents),
		"events with a member each":      full(event(field(11, member)), weight.DefaultEvents),
		"events with unknown fields":     full(event(field(99, odd)), weight.DefaultEvents),
		"events with eight short texts":  full(event(bytes.Join([][]byte{field(2, odd), field(3, odd), field(4, odd), field(7, odd), field(13, odd), field(17, odd), field(18, odd)}, nil)), weight.DefaultEvents),
		"error codes":                    event(full(field(9, "ab"), weight.DefaultParts)),
		"error codes of an odd size":     event(full(field(9, strings.Repeat("x", 33)), weight.DefaultParts)),
		"entities":                       event(full(field(10, string(field(1, "ab"))+string(field(2, "cd"))), weight.DefaultParts)),
		"entities with unknown fields":   event(full(field(10, string(field(9, "x"))), weight.DefaultParts)),
		"members of metadata":            event(members(weight.DefaultParts)),
		"eight members for each event":   full(event(members(8)), weight.DefaultEvents),
		"one long text":                  event(field(7, strings.Repeat("x", size-100))),
		"one long unknown field":         event(field(99, strings.Repeat("x", size-100))),
		"many unknown fields":            event(full(field(99, "x"), 1<<30)),
	}
}

// members are as many different members of metadata.
func members(n int) []byte {
	var out []byte
	for i := range n {
		key := protowire.AppendVarint(nil, uint64(i)+1<<14)
		for j := range key {
			key[j] &= 0x7f
		}
		out = append(out, field(11, string(field(1, string(key)))+string(field(2, "v")))...)
	}
	return out
}

// TestAMessageTakesNoMoreMemoryThanItsWeight decodes the worst and measures the heap. It is not parallel: others would be measured along.
func TestAMessageTakesNoMoreMemoryThanItsWeight(t *testing.T) {
	for name, raw := range maximal() {
		w, err := weight.Scan(raw, weight.Bounds{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var batch healtheventv1.HealthEvents
		before := heap()
		if err := proto.Unmarshal(raw, &batch); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		took := heap() - before
		if got := weight.Of(batch.GetEvents()); got.Events != w.Events || got.Parts != w.Parts {
			t.Errorf("%s: decoded %+v, scanned %+v", name, got, w)
		}
		runtime.KeepAlive(raw)
		t.Logf("%s: %d bytes are %d events and %d parts and take %d, weight %d", name, len(raw), w.Events, w.Parts, took, w.Bytes)
		if most := (weight.Bounds{}).Most(int64(len(raw))); took > w.Bytes || w.Bytes > most {
			t.Errorf("%s: takes %d bytes, weighs %d, at most %d", name, took, w.Bytes, most)
		}
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestWhatIsTooMuch(t *testing.T) {
	t.Parallel()
	two := weight.Bounds{Events: 2, Parts: 3}
	for name, tc := range map[string]struct {
		raw  []byte
		want string // of the error
	}{
		"as much as may be":             {bytes.Repeat(event(append(field(9, "1"), field(3, "GPU")...)), 2), ""},
		"one event too many":            {bytes.Repeat(event(nil), 3), "events: a batch may have at most 2 events (limits.maxEvents); report in smaller batches"},
		"one code too many":             {event(bytes.Repeat(field(9, ""), 4)), "events[0].errorCode: a batch may have at most 3 error codes, entities and members of metadata (limits.maxParts); report in smaller batches"},
		"entities of two events":        {bytes.Repeat(event(bytes.Repeat(field(10, ""), 2)), 2), "events[1].entitiesImpacted: a batch may have at most 3 error codes"},
		"members of metadata":           {event(append(bytes.Repeat(field(9, ""), 3), field(11, "")...)), "events[0].metadata: a batch may have at most 3"},
		"the same member again":         {event(bytes.Repeat(field(11, ""), 4)), "events[0].metadata: "},
		"an event that is cut off":      {event(nil)[:1], "no batch"},
		"a field in an event is cut":    {event([]byte{0x4a}), "no batch"},
		"a field that is no field":      {[]byte{0x07}, "no batch"},
		"events that are of other type": {bytes.Repeat(protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 1), 5), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := weight.Scan(tc.raw, two)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%v, want %q", err, tc.want)
			}
			var excess *weight.Excess
			var batch healtheventv1.HealthEvents
			if !errors.As(err, &excess) || strings.Contains(name, "again") || proto.Unmarshal(tc.raw, &batch) != nil {
				return
			}
			if decoded := two.Check(batch.GetEvents()); decoded == nil || decoded.Error() != err.Error() {
				t.Errorf("decoded: %v, scanned: %v", decoded, err)
			}
		})
	}
}

// TestWhatMonitorsSend: a batch as a GPU monitor sends it is far within the bounds, and costs the scan no allocation.
func TestWhatMonitorsSend(t *testing.T) {
	batch := &healtheventv1.HealthEvents{Version: 1}
	for range 300 {
		batch.Events = append(batch.Events, &healtheventv1.HealthEvent{
			Version: 1, Agent: "gpu-health-monitor", ComponentClass: "GPU", CheckName: "GpuXidError", IsFatal: true, ErrorCode: []string{"79"},
			EntitiesImpacted: []*healtheventv1.Entity{{EntityType: "GPU", EntityValue: "0"}, {EntityType: "NVLINK", EntityValue: "3"}},
			Metadata:         map[string]string{"driver": "575", "vbios": "96.00"}, GeneratedTimestamp: timestamppb.Now(),
		})
	}
	raw, err := proto.Marshal(batch)
	if err != nil {
		t.Fatal(err)
	}
	w, err := weight.Scan(raw, weight.Bounds{})
	if err != nil || w.Events != 300 || w.Parts != 1500 {
		t.Errorf("%+v, %v", w, err)
	}
	if got := testing.AllocsPerRun(10, func() { _, _ = weight.Scan(raw, weight.Bounds{}) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

// FuzzScan: whatever decodes is counted as it is decoded, and what is refused is refused by the decoder or for its size.
func FuzzScan(f *testing.F) {
	for _, raw := range maximal() {
		f.Add(raw[:min(len(raw), 4096)])
	}
	f.Add(event(bytes.Repeat(field(9, ""), 4)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounds := weight.Bounds{Events: 1 << 20, Parts: 1 << 20}
		w, err := weight.Scan(raw, bounds)
		var batch healtheventv1.HealthEvents
		if decoded := proto.Unmarshal(raw, &batch); decoded != nil {
			return
		}
		if err != nil {
			t.Fatalf("what decodes is not weighed: %v", err)
		}
		got := weight.Of(batch.GetEvents())
		if got.Events != w.Events || got.Parts > w.Parts { // a member that comes twice is one in the end
			t.Errorf("decoded %+v, scanned %+v", got, w)
		}
	})
}
