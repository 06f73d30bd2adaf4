package spool

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/lanyard-k8s/lanyard/api/healthevent/weight"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// FuzzRecord says that a body is read or refused, and that what is read is the same when it is written and read again.
func FuzzRecord(f *testing.F) {
	for _, b := range []sink.Batch{{}, batchOf("", "1"), batchOf("system:serviceaccount:gpu:monitor", "2"), {User: "user 0"}, {Scope: nodebinding.CrossNode, Degraded: true, Received: time.Unix(1, 1)}} {
		body, err := appendBody(nil, "uid", b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		h, err := readHead(body)
		if err != nil {
			return
		}
		b, err := h.readBatch(weight.Bounds{})
		if err != nil {
			return
		}
		again, err := appendBody(nil, h.ownNodeUID, b)
		if err != nil {
			t.Skip("the events are no valid UTF-8 somewhere")
		}
		h2, err := readHead(again)
		if err != nil {
			t.Fatal(err)
		}
		b2, err := h2.readBatch(weight.Bounds{})
		if err != nil {
			t.Fatal(err)
		}
		if h2.ownNodeUID != h.ownNodeUID {
			t.Errorf("the node's UID became %q", h2.ownNodeUID)
		}
		if b.Received.IsZero() {
			b.Received = b2.Received
		}
		if diff := cmp.Diff(b, b2, protocmp.Transform()); diff != "" {
			t.Errorf("(-first +second):\n%s", diff)
		}
	})
}
