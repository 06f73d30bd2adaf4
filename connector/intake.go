package connector

import (
	"context"

	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// Intake is where accepted batches go: the spool, or Direct. Append returns nil once the batch may be acknowledged, which is
// when it survives a crash or was delivered; an error is a *sink.Error, or that of the context, or counts as passing.
type Intake interface {
	Append(ctx context.Context, b sink.Batch) error
}
