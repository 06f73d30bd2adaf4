package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// three is a spool's directory with one segment of three batches, and where each of them ends.
type three struct {
	o    Options
	path string
	raw  []byte
	ends []int
	word []byte
}

func newThree(t *testing.T) three {
	t.Helper()
	o := options(t, newCollector(sink.Log))
	s := opened(t, o)
	f := three{o: o, path: filepath.Join(o.Directory, segmentName(0))}
	for i := range 3 {
		appended(t, s, "p", i, 1)
		info, err := os.Stat(f.path)
		if err != nil {
			t.Fatal(err)
		}
		f.ends = append(f.ends, int(info.Size()))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	f.raw, f.word = raw, raw[8:16]
	return f
}

// reread writes a segment's bytes and returns what is delivered, put aside and torn.
func (f three) reread(t *testing.T, raw []byte) (ids []string, aside map[Reason]int, torn int64) {
	t.Helper()
	o, to := f.o, newCollector(sink.Log)
	o.Sinks = []sink.Sink{to}
	if err := os.RemoveAll(o.Directory); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(o.Directory, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	aside = map[Reason]int{}
	var mu sync.Mutex
	o.Hooks.Quarantined = func(r Reason) { mu.Lock(); aside[r]++; mu.Unlock() }
	o.Hooks.Torn = func(n int64) { torn += n }
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	err = s.Drain(soon(t))
	cancel()
	if err := errors.Join(err, <-ended, s.Close()); err != nil {
		t.Fatal(err)
	}
	return to.got(), aside, torn
}

func TestATornEndIsCutOff(t *testing.T) {
	t.Parallel()
	f := newThree(t)
	for size := 0; size <= len(f.raw); size += 7 {
		var want []string
		rest := size
		for i, end := range f.ends {
			if size >= end {
				want = append(want, fmt.Sprint("p-", i))
				rest = size - end
			}
		}
		if len(want) == 0 && size > headerSize {
			rest = size - headerSize
		}
		ids, aside, torn := f.reread(t, f.raw[:size])
		if diff := cmp.Diff(append([]string{}, want...), ids); diff != "" {
			t.Fatalf("of %d bytes (-want +got):\n%s", size, diff)
		}
		if len(aside) > 0 || torn != int64(rest) {
			t.Fatalf("of %d bytes %v are put aside and %d bytes torn, want %d", size, aside, torn, rest)
		}
	}
}

func TestDamage(t *testing.T) {
	t.Parallel()
	f := newThree(t)
	flip := func(at int) func([]byte) []byte {
		return func(raw []byte) []byte { raw[at] ^= 0x20; return raw }
	}
	first, second := headerSize, f.ends[0]
	for name, tc := range map[string]struct {
		spoil     func(raw []byte) []byte
		want      []string
		wantAside map[Reason]int
		wantTorn  int64
	}{
		"none":                          {func(raw []byte) []byte { return raw }, []string{"p-0", "p-1", "p-2"}, nil, 0},
		"in the first batch":            {flip(first + frameSize + 3), []string{"p-1", "p-2"}, map[Reason]int{Corrupt: 1}, 0},
		"in the second's length":        {flip(second + 8), []string{"p-0", "p-2"}, map[Reason]int{Corrupt: 1}, 0},
		"in the second's checksum":      {flip(second + 12), []string{"p-0", "p-2"}, map[Reason]int{Corrupt: 1}, 0},
		"in the second's word":          {flip(second), []string{"p-0", "p-2"}, map[Reason]int{Corrupt: 1}, 0},
		"in the last batch":             {flip(f.ends[1] + frameSize + 3), []string{"p-0", "p-1"}, map[Reason]int{Corrupt: 1}, 0},
		"in the first and second":       {func(raw []byte) []byte { return flip(second + 20)(flip(first + 20)(raw)) }, []string{"p-2"}, map[Reason]int{Corrupt: 1}, 0},
		"of the segment's first bytes":  {flip(3), []string{}, map[Reason]int{Corrupt: 1}, 0},
		"of the segment's word":         {flip(10), []string{}, map[Reason]int{Corrupt: 1}, 0},
		"zeros after the last":          {func(raw []byte) []byte { return append(raw, make([]byte, 5000)...) }, []string{"p-0", "p-1", "p-2"}, nil, 5000},
		"something else after the last": {func(raw []byte) []byte { return append(raw, bytes.Repeat([]byte("x"), 200000)...) }, []string{"p-0", "p-1", "p-2"}, map[Reason]int{Corrupt: 1}, 0},
		"a body that is no batch's":     {func(raw []byte) []byte { return append(raw, sealed(f, []byte("\xff\xff"))...) }, []string{"p-0", "p-1", "p-2"}, map[Reason]int{Unreadable: 1}, 0},
		"a field that nobody knows":     {func(raw []byte) []byte { return append(raw, sealed(f, []byte("\xfa\x01\x01x"))...) }, []string{"p-0", "p-1", "p-2"}, map[Reason]int{Unreadable: 1}, 0},
		"events that are no events":     {func(raw []byte) []byte { return append(raw, sealed(f, []byte("\x62\x01\xff"))...) }, []string{"p-0", "p-1", "p-2"}, map[Reason]int{Unreadable: 1}, 0},
		"a record with a foreign word":  {func(raw []byte) []byte { return append(raw, foreign(f)...) }, []string{"p-0", "p-1", "p-2"}, map[Reason]int{Corrupt: 1}, 0},
		"a length that is far too large": {func(raw []byte) []byte {
			return append(raw, append(bytes.Clone(f.word), "\xff\xff\xff\xff0123456789"...)...)
		}, []string{"p-0", "p-1", "p-2"}, map[Reason]int{Corrupt: 1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			ids, aside, torn := f.reread(t, tc.spoil(bytes.Clone(f.raw)))
			if diff := cmp.Diff(tc.want, ids); diff != "" {
				t.Errorf("delivered (-want +got):\n%s", diff)
			}
			if tc.wantAside == nil {
				tc.wantAside = map[Reason]int{}
			}
			if diff := cmp.Diff(tc.wantAside, aside); diff != "" || torn != tc.wantTorn {
				t.Errorf("torn %d, put aside (-want +got):\n%s", torn, diff)
			}
		})
	}
}

// sealed is a record of the segment with a body.
func sealed(f three, body []byte) []byte {
	buf := append(make([]byte, frameSize), body...)
	seal(buf, segmentWord(f))
	return buf
}

// foreign is the first batch's record as one who does not know the segment's word would write it.
func foreign(f three) []byte {
	buf := bytes.Clone(f.raw[headerSize:f.ends[0]])
	seal(buf, segmentWord(f)+1)
	return buf
}

func segmentWord(f three) uint64 {
	return readFrame(append(bytes.Clone(f.word), make([]byte, 8)...)).word
}

// TestAnEventCannotPoseAsARecord hides a whole record of a verified caller in a field of an event, and damages the record
// around it so that the next whole one is looked for.
func TestAnEventCannotPoseAsARecord(t *testing.T) {
	t.Parallel()
	f := newThree(t)
	o := f.o
	if err := os.RemoveAll(o.Directory); err != nil {
		t.Fatal(err)
	}
	s := opened(t, o)
	b := batchOf("", "carrier")
	forged, err := appendBody(make([]byte, frameSize), "", batchOf("system:serviceaccount:gpu:listed", "forged"))
	if err != nil {
		t.Fatal(err)
	}
	seal(forged, segmentWord(f))
	b.Events[0].ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 1000, protowire.BytesType), forged))
	if err := s.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	raw[headerSize+frameSize] ^= 1
	ids, aside, _ := f.reread(t, raw)
	if diff := cmp.Diff([]string{}, ids); diff != "" || aside[Corrupt] != 1 {
		t.Errorf("%v put aside, delivered (-want +got):\n%s", aside, diff)
	}
}

func TestATornJournalOnlyRepeats(t *testing.T) {
	t.Parallel()
	fails := newCollector(sink.Forward)
	fails.before = func(context.Context, sink.Batch) error { return errDown }
	works := newCollector(sink.Log)
	o := options(t, works, fails)
	s := opened(t, o)
	running(t, s)
	want := appended(t, s, "p", 0, 4)
	works.await(t, 4)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	journal := filepath.Join(o.Directory, journalName(0))
	raw, err := os.ReadFile(journal)
	if err != nil || len(raw) != 4*mark {
		t.Fatalf("the journal has %d bytes, %v", len(raw), err)
	}
	torn := append(append(bytes.Clone(raw[:mark+5]), raw[2*mark:3*mark]...), raw[3*mark:3*mark+2]...)
	if err := os.WriteFile(journal, torn, 0o600); err != nil {
		t.Fatal(err)
	}
	fails.before = nil
	s = opened(t, o)
	running(t, s)
	if diff := cmp.Diff(want, fails.await(t, 4)); diff != "" {
		t.Errorf("the sink that failed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(append(want, "p-1", "p-3"), works.await(t, 6)); diff != "" {
		t.Errorf("the sink that worked (-want +got):\n%s", diff)
	}
}
