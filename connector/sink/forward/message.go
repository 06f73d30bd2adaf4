package forward

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/api/healthevent/weight"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

const (
	// messageMost is the size of one call's events: gRPC's servers take 4 MiB unless told otherwise.
	messageMost = 4<<20 - 16<<10
	// quoteMost is how much of the other side's words goes into an error.
	quoteMost = 200
)

// keyOf is the idempotency key to send; the package's comment says what of.
func keyOf(b sink.Batch) (string, error) {
	h := sha256.New()
	part := func(s string) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
		h.Write([]byte(s))
	}
	if b.Caller.PodUID != "" && b.Key != "" {
		part("publisher")
		part(b.Caller.PodUID)
		part(b.Key)
		return encode(h.Sum(nil)), nil
	}
	part("batch")
	part(b.Caller.Username)
	part(b.Key)
	part(strconv.FormatInt(b.Received.UnixNano(), 10))
	for i, e := range b.Events {
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(e)
		if err != nil {
			return "", fmt.Errorf("encode event %d: %w", i, err)
		}
		part(string(raw))
	}
	return encode(h.Sum(nil)), nil
}

func encode(sum []byte) string { return "lanyard." + base64.RawURLEncoding.EncodeToString(sum) }

// partKey tells the parts of a batch apart.
func partKey(key string, part int) string {
	if part == 0 {
		return key
	}
	return key + "." + strconv.Itoa(part)
}

// split cuts a batch into parts that the other side takes by default: not larger than most, and with no more events and parts of events
// than a batch may have, as far as an event alone is not. Which parts there are depends on the events alone, so that a repetition has the
// same ones.
func split(events []*healtheventv1.HealthEvent, most int) [][]*healtheventv1.HealthEvent {
	var parts [][]*healtheventv1.HealthEvent
	from, size, pieces := 0, 0, 0
	for i, e := range events {
		n, p := proto.Size(e)+8, weight.PartsOf(e)
		if i > from && (size+n > most || i-from == weight.DefaultEvents || pieces+p > weight.DefaultParts) {
			parts = append(parts, events[from:i])
			from, size, pieces = i, 0, 0
		}
		size += n
		pieces += p
	}
	return append(parts, events[from:])
}

// redacted shortens what the other side says, and takes our own token out of it.
func redacted(s, token string) string {
	if token != "" {
		s = strings.ReplaceAll(s, token, "[token]")
	}
	if len(s) > quoteMost {
		s = s[:quoteMost]
	}
	return s
}
