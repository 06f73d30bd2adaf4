package store

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// Bounds of texts in columns, in bytes: those that are indexed, whose size PostgreSQL limits, and the message.
const (
	maxName    = 256
	maxMessage = 4096
)

// columns are the columns that row gives values for, in its order.
func columns() []string {
	return []string{
		"received_at", "publisher", "publisher_pod", "publisher_pod_uid", "publisher_node", "publisher_node_uid", "credential_id",
		"scope", "degraded", "idempotency_key", "event_index", "node_name", "agent", "component_class", "check_name", "is_fatal",
		"is_healthy", "message", "recommended_action", "strategy", "generated_at", "event_id", "event",
	}
}

func insertStatement(d dialect) string {
	names := columns()
	parameters := make([]string, len(names))
	for i := range names {
		parameters[i] = d.parameter(i + 1)
	}
	return "INSERT INTO health_events (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(parameters, ", ") + ")" +
		" ON CONFLICT (publisher_pod_uid, idempotency_key, event_index)" +
		" WHERE publisher_pod_uid <> '' AND idempotency_key <> '' DO NOTHING"
}

// row is event i of a batch.
func row(b sink.Batch, i int, e *healtheventv1.HealthEvent) ([]any, error) {
	raw, err := proto.Marshal(e)
	if err != nil {
		return nil, sink.Final(sink.Refused, nodebinding.InvalidArgument, fmt.Errorf("encode event %d: %w", i, err))
	}
	var generated any
	if t := e.GetGeneratedTimestamp(); t != nil && t.CheckValid() == nil {
		generated = t.AsTime().UnixMicro()
	}
	c := b.Caller
	return []any{
		b.Received.UnixMicro(), text(c.Username, maxMessage), text(c.PodName, maxName), text(c.PodUID, maxName), text(c.Node, maxName),
		text(c.NodeUID, maxName), text(c.CredentialID, maxName), string(b.Scope), b.Degraded, text(b.Key, maxName), i,
		text(e.GetNodeName(), maxName), text(e.GetAgent(), maxName), text(e.GetComponentClass(), maxName), text(e.GetCheckName(), maxName),
		e.GetIsFatal(), e.GetIsHealthy(), text(e.GetMessage(), maxMessage), int32(e.GetRecommendedAction()),
		int32(e.GetProcessingStrategy()), generated, text(e.GetId(), maxName), raw,
	}, nil
}

// text fits a string into a column: no zero character, which PostgreSQL refuses for ever, valid UTF-8, and at most so many
// bytes.
func text(s string, most int) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
