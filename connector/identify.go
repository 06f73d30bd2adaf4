package connector

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// Reviewer says whose a token is; *tokenreview.Reviewer does.
type Reviewer interface {
	Review(ctx context.Context, token string, from *tokenreview.Bucket) (tokenreview.Verdict, error)
}

// Nodes tells the UID of a live node; *liveness.Nodes does.
type Nodes interface {
	Trusted(now time.Time) bool
	UID(name string) string
}

// The metadata of a call, by gRPC's lower-case keys.
const (
	keyAuthorization = "authorization"
	keyIdempotency   = "idempotency-key"
)

// caller is what is known of who makes a call.
type caller struct {
	evidence nodebinding.Evidence
	verdict  tokenreview.Verdict
	user     int64 // the Unix socket peer's, -1 if not known
	err      error // why there is no verdict, for the log
}

// identify reads the header and has the token reviewed, if there is one that is worth it.
func (d *Desk) identify(ctx context.Context, now time.Time) caller {
	conn := connectionOf(ctx)
	token, credential := nodebinding.ReadHeader(metadata.ValueFromIncomingContext(ctx, keyAuthorization))
	c := caller{evidence: nodebinding.Evidence{Credential: credential}, user: conn.user}
	if credential != nodebinding.CredentialPresented {
		return c
	}
	c.verdict, c.err = d.reviewer.Review(ctx, token.Reveal(), conn.bucket)
	if c.err != nil {
		c.evidence.Review, c.evidence.Detail = failed(c.err)
		return c
	}
	c.evidence.Review = nodebinding.OK
	c.evidence.Identity = nodebinding.Identity{
		Username: c.verdict.Username, PodUID: c.verdict.PodUID, Node: c.verdict.NodeName, NodeUID: c.verdict.NodeUID,
	}
	if c.verdict.NodeName != "" && d.nodes != nil && d.nodes.Trusted(now) {
		c.evidence.LiveNodeUID = d.nodes.UID(c.verdict.NodeName)
	}
	return c
}

// failed is how a review that brought no verdict counts. An error that nobody has thought of is Internal, never an outage,
// which may fail open.
func failed(err error) (nodebinding.Code, nodebinding.Reason) {
	switch reason := tokenreview.ReasonOf(err); reason {
	case tokenreview.TokenInvalid:
		return nodebinding.Unauthenticated, ""
	case tokenreview.TokenExpired:
		return nodebinding.Unauthenticated, nodebinding.TokenExpired
	case tokenreview.PodNotLive:
		return nodebinding.Unauthenticated, nodebinding.PodNotLive
	case tokenreview.ValidatorUnavailable:
		return nodebinding.Unavailable, ""
	case tokenreview.RateLimited:
		return nodebinding.Unavailable, nodebinding.RateLimited
	case tokenreview.ValidatorTimeout:
		if errors.Is(err, context.Canceled) {
			return nodebinding.Canceled, ""
		}
		return nodebinding.DeadlineExceeded, ""
	default:
		return nodebinding.Internal, ""
	}
}

// named is the caller as the sinks know it; the zero Caller if nobody vouches for it.
func (c *caller) named() sink.Caller {
	if c.evidence.Review != nodebinding.OK {
		return sink.Caller{}
	}
	v := &c.verdict
	return sink.Caller{
		Username: v.Username, PodName: v.PodName, PodUID: v.PodUID, Node: v.NodeName, NodeUID: v.NodeUID, CredentialID: v.CredentialID,
	}
}
