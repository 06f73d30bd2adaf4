package connector

import (
	"context"

	"google.golang.org/grpc/metadata"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

// beforehand refuses a call whose header alone decides, before its message is read: nobody need send us megabytes, or hold a
// seat, to be told that a token is missing or is none. What only lets the header through is decided with the batch.
func (d *Desk) beforehand(ctx context.Context, header metadata.MD) error {
	if d.Mode == nodebinding.Disabled {
		return nil
	}
	_, credential := nodebinding.ReadHeader(header[keyAuthorization])
	if credential == nodebinding.CredentialPresented {
		return nil
	}
	c := caller{evidence: nodebinding.Evidence{Credential: credential}, user: connectionOf(ctx).user}
	outcome := nodebinding.Apply(nodebinding.Decide(d.Rules, c.evidence), d.Mode, events(nil))
	if outcome.Allowed() {
		return nil
	}
	d.record(&c, outcome, nil, d.Now())
	return answerTo(outcome)
}
