package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/api/healthevent/weight"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// A record is a frame of 16 bytes (the segment's word, the body's length and the CRC32C of both and the body), and the body:
// a message in protobuf's encoding with the fields below. A field that is not among them makes a record unreadable, since
// what it says about the batch would be passed over.
const (
	fieldOwnNodeUID protowire.Number = iota + 1
	fieldScope
	fieldDegraded
	fieldReceived
	fieldKey
	fieldUsername
	fieldPodName
	fieldPodUID
	fieldNode
	fieldNodeUID
	fieldCredentialID
	fieldEvents
	fieldUser
)

const (
	frameSize = 16
	// bodyMost is beyond what any call can carry; a longer record is none.
	bodyMost = 128 << 20
)

var errRecord = errors.New("the record cannot be read")

// head is what a record says besides its events.
type head struct {
	ownNodeUID string
	batch      sink.Batch // without events
	events     []byte
}

// appendBody appends a record's body.
func appendBody(buf []byte, ownNodeUID string, b sink.Batch) ([]byte, error) {
	text := func(n protowire.Number, s string) {
		if s != "" {
			buf = protowire.AppendString(protowire.AppendTag(buf, n, protowire.BytesType), s)
		}
	}
	text(fieldOwnNodeUID, ownNodeUID)
	text(fieldScope, string(b.Scope))
	if b.Degraded {
		buf = protowire.AppendVarint(protowire.AppendTag(buf, fieldDegraded, protowire.VarintType), 1)
	}
	buf = protowire.AppendFixed64(protowire.AppendTag(buf, fieldReceived, protowire.Fixed64Type), uint64(b.Received.UnixNano()))
	text(fieldKey, b.Key)
	text(fieldUsername, b.Caller.Username)
	text(fieldPodName, b.Caller.PodName)
	text(fieldPodUID, b.Caller.PodUID)
	text(fieldNode, b.Caller.Node)
	text(fieldNodeUID, b.Caller.NodeUID)
	text(fieldCredentialID, b.Caller.CredentialID)
	text(fieldUser, b.User)
	events := &healtheventv1.HealthEvents{Version: 1, Events: b.Events}
	buf = protowire.AppendVarint(protowire.AppendTag(buf, fieldEvents, protowire.BytesType), uint64(proto.Size(events)))
	buf, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(buf, events)
	if err != nil {
		return nil, fmt.Errorf("encode batch: %w", err)
	}
	return buf, nil
}

// readHead reads a body but for its events.
func readHead(body []byte) (head, error) {
	var h head
	for len(body) > 0 {
		n, typ, size := protowire.ConsumeTag(body)
		if size < 0 {
			return head{}, errRecord
		}
		body = body[size:]
		switch typ {
		case protowire.BytesType:
			v, size := protowire.ConsumeBytes(body)
			if size < 0 || !h.setBytes(n, v) {
				return head{}, errRecord
			}
			body = body[size:]
		case protowire.VarintType:
			v, size := protowire.ConsumeVarint(body)
			if size < 0 || n != fieldDegraded {
				return head{}, errRecord
			}
			h.batch.Degraded, body = v != 0, body[size:]
		case protowire.Fixed64Type:
			v, size := protowire.ConsumeFixed64(body)
			if size < 0 || n != fieldReceived {
				return head{}, errRecord
			}
			h.batch.Received, body = time.Unix(0, int64(v)).UTC(), body[size:]
		default:
			return head{}, errRecord
		}
	}
	return h, nil
}

func (h *head) setBytes(n protowire.Number, v []byte) bool {
	c := &h.batch.Caller
	switch n {
	case fieldOwnNodeUID:
		h.ownNodeUID = string(v)
	case fieldScope:
		h.batch.Scope = nodebinding.Scope(v)
	case fieldKey:
		h.batch.Key = string(v)
	case fieldUsername:
		c.Username = string(v)
	case fieldPodName:
		c.PodName = string(v)
	case fieldPodUID:
		c.PodUID = string(v)
	case fieldNode:
		c.Node = string(v)
	case fieldNodeUID:
		c.NodeUID = string(v)
	case fieldCredentialID:
		c.CredentialID = string(v)
	case fieldUser:
		h.batch.User = string(v)
	case fieldEvents:
		h.events = v
	default:
		return false
	}
	return true
}

// readBatch reads the whole body, unless its batch holds more than it may: the error is then a *weight.Excess.
func (h head) readBatch(most weight.Bounds) (sink.Batch, error) {
	var excess *weight.Excess
	if _, err := weight.Scan(h.events, most); errors.As(err, &excess) {
		return sink.Batch{}, err
	} else if err != nil {
		return sink.Batch{}, errRecord
	}
	var events healtheventv1.HealthEvents
	if err := proto.Unmarshal(h.events, &events); err != nil {
		return sink.Batch{}, errRecord
	}
	b := h.batch
	b.Events = events.GetEvents()
	return b, nil
}

// publisher is whose order a record stands in.
func (h head) publisher() string { return h.batch.Publisher() }

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// seal fills in the frame at the start of buf for the body behind it.
func seal(buf []byte, word uint64) {
	binary.LittleEndian.PutUint64(buf, word)
	binary.LittleEndian.PutUint32(buf[8:], uint32(len(buf)-frameSize))
	binary.LittleEndian.PutUint32(buf[12:], checksum(buf[:12], buf[frameSize:]))
}

func checksum(frame, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(frame, castagnoli()), castagnoli(), body)
}

// frame is what a record's first 16 bytes say.
type frame struct {
	word   uint64
	length uint32
	sum    uint32
}

func readFrame(buf []byte) frame {
	return frame{
		word: binary.LittleEndian.Uint64(buf), length: binary.LittleEndian.Uint32(buf[8:]), sum: binary.LittleEndian.Uint32(buf[12:]),
	}
}

// fits says whether a body belongs to the frame.
func (f frame) fits(header, body []byte) bool { return checksum(header[:12], body) == f.sum }
