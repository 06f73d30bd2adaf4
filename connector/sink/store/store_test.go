package store

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// TestStore holds both drivers to the same behaviour.
func TestStore(t *testing.T) {
	t.Parallel()
	for driver, open := range drivers() {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			for name, test := range map[string]func(*testing.T, func(*testing.T, Options) *Store){
				"an event is stored with its publisher":                    storesIdentity,
				"a batch is stored once":                                   storesOnce,
				"a batch is stored once however many offer it at once":     storesOnceTogether,
				"nothing is taken for a repetition without a verified pod": tellsNobodyApart,
				"a batch is stored as a whole or not at all":               storesWhole,
				"whatever an event says is stored":                         storesAnything,
				"old events are deleted":                                   prunes,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(t, open)
				})
			}
		})
	}
}

func deliver(t *testing.T, s *Store, b sink.Batch, want sink.Report) {
	t.Helper()
	got, err := s.Deliver(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func storesIdentity(t *testing.T, open func(*testing.T, Options) *Store) {
	s := open(t, Options{})
	event := &healtheventv1.HealthEvent{
		Agent: "monitor", CheckName: "GpuXidError", NodeName: "node-b", IsFatal: true, Message: "off the bus", RecommendedAction: 24,
		ProcessingStrategy: 4711, GeneratedTimestamp: timestamppb.New(received()), Id: "event", ErrorCode: []string{"79"},
		Metadata: map[string]string{"a": "b"},
	}
	event.ProtoReflect().SetUnknown([]byte{0xc2, 0x3e, 0x01, 'x'})
	b := sink.NewBatch([]*healtheventv1.HealthEvent{event}, sink.Caller{
		Username: "system:serviceaccount:gpu:monitor", PodName: "monitor-1", PodUID: "pod", Node: "node-a", NodeUID: "node", CredentialID: "JTI=1",
	}, nodebinding.CrossNode, received())
	b.Key = "key"
	deliver(t, s, b, sink.Report{sink.Written: 1})
	var raw []byte
	var at, generated int64
	var who [6]string
	var scope, key, node, check string
	var fatal, healthy bool
	err := s.db.QueryRowContext(t.Context(), `SELECT received_at, publisher, publisher_pod, publisher_pod_uid, publisher_node, publisher_node_uid,
		credential_id, scope, idempotency_key, node_name, check_name, is_fatal, is_healthy, generated_at, event FROM health_events`).
		Scan(&at, &who[0], &who[1], &who[2], &who[3], &who[4], &who[5], &scope, &key, &node, &check, &fatal, &healthy, &generated, &raw)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([6]string{"system:serviceaccount:gpu:monitor", "monitor-1", "pod", "node-a", "node", "JTI=1"}, who); diff != "" {
		t.Errorf("publisher (-want +got):\n%s", diff)
	}
	if at != received().UnixMicro() || generated != at || scope != "cross_node" || key != "key" || node != "node-b" || check != "GpuXidError" || !fatal || healthy {
		t.Error(at, generated, scope, key, node, check, fatal, healthy)
	}
	var got healtheventv1.HealthEvent
	if err := proto.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(event, &got, protocmp.Transform()); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
}

func storesOnce(t *testing.T, open func(*testing.T, Options) *Store) {
	s := open(t, Options{})
	deliver(t, s, batch("pod", "1", 3), sink.Report{sink.Written: 3})
	deliver(t, s, batch("pod", "1", 3), sink.Report{sink.Duplicate: 3})
	deliver(t, s, batch("pod", "1", 5), sink.Report{sink.Duplicate: 3, sink.Written: 2})
	deliver(t, s, batch("pod", "2", 3), sink.Report{sink.Written: 3})
	deliver(t, s, batch("other", "1", 3), sink.Report{sink.Written: 3})
	deliver(t, s, batch("pod", "3", 0), nil)
	if n := count(t, s, "1=1"); n != 11 {
		t.Errorf("%d rows", n)
	}
}

func storesOnceTogether(t *testing.T, open func(*testing.T, Options) *Store) {
	s := open(t, Options{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for key := range 10 {
				if _, err := s.Deliver(t.Context(), batch("pod", fmt.Sprint(key), 3)); err != nil && sink.Classify(err).Final {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := count(t, s, "1=1"); n != 30 {
		t.Errorf("%d rows, want 30", n)
	}
}

func tellsNobodyApart(t *testing.T, open func(*testing.T, Options) *Store) {
	s := open(t, Options{})
	for range 2 {
		deliver(t, s, batch("", "key", 2), sink.Report{sink.Written: 2})
		deliver(t, s, batch("pod", "", 2), sink.Report{sink.Written: 2})
	}
	if n := count(t, s, "1=1"); n != 8 {
		t.Errorf("%d rows", n)
	}
}

func storesWhole(t *testing.T, open func(*testing.T, Options) *Store) {
	s := open(t, Options{})
	b := batch("pod", "key", 3)
	b.Events[2].Message = "\xff" // which cannot be encoded
	_, err := s.Deliver(t.Context(), b)
	if e := sink.Classify(err); e == nil || !e.Final || e.Reason != sink.Refused {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Deliver(ctx, batch("pod", "key", 3))
	if e := sink.Classify(err); e == nil || e.Final || e.Reason != sink.Timeout {
		t.Errorf("got %v", err)
	}
	if n := count(t, s, "1=1"); n != 0 {
		t.Errorf("%d rows are there", n)
	}
}

func storesAnything(t *testing.T, open func(*testing.T, Options) *Store) {
	s := open(t, Options{})
	for i, text := range []string{"", "\x00", "a\x00b", strings.Repeat("x", 100_000), strings.Repeat("語", 5000), "'; DROP TABLE health_events; --"} {
		b := sink.NewBatch([]*healtheventv1.HealthEvent{{
			Message: text, CheckName: text, NodeName: text, Agent: text, ComponentClass: text, Id: text, ErrorCode: []string{text},
			GeneratedTimestamp: &timestamppb.Timestamp{Seconds: -1 << 62}, RecommendedAction: -1,
		}}, sink.Caller{PodUID: "pod"}, nodebinding.NodeLocal, received())
		b.Key = fmt.Sprint(i)
		deliver(t, s, b, sink.Report{sink.Written: 1})
	}
	if n := count(t, s, "1=1"); n != 6 {
		t.Errorf("%d rows", n)
	}
}

func prunes(t *testing.T, open func(*testing.T, Options) *Store) {
	now := received().Add(25 * time.Hour)
	s := open(t, Options{Retention: 24 * time.Hour, Now: func() time.Time { return now }})
	old, fresh := batch("pod", "old", 2500), batch("pod", "fresh", 2)
	fresh.Received = now.Add(-23 * time.Hour)
	deliver(t, s, old, sink.Report{sink.Written: 2500})
	deliver(t, s, fresh, sink.Report{sink.Written: 2})
	if n, err := s.Prune(t.Context()); n != 2500 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	if n := count(t, s, "1=1"); n != 2 {
		t.Errorf("%d rows are left", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}
	s.o.Retention = 0
	if n, err := s.Prune(t.Context()); n != 0 || err != nil {
		t.Errorf("without a retention %d are deleted, %v", n, err)
	}
}
