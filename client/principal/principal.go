package principal

import "context"

// Principal is who calls.
type Principal struct {
	// ID is who acts: a job's workload, or the person or service whose own token it is.
	ID string
	// OnBehalfOf is the submitter of the job that acts, empty for a token of the caller's own. What a job may see is what its
	// submitter may see: authorize this name where it is set, else ID.
	OnBehalfOf string
	// Email and Groups are the person's: OnBehalfOf's where it is set, else ID's. Both may be empty.
	Email  string
	Groups []string
	// Scopes is what was granted.
	Scopes []string
}

// Person is for whom the call is made: OnBehalfOf, or ID.
func (p Principal) Person() string {
	if p.OnBehalfOf != "" {
		return p.OnBehalfOf
	}
	return p.ID
}

type key struct{}

// FromContext is the caller of the request that a context belongs to; false where no Guard has let it pass.
func FromContext(ctx context.Context) (Principal, bool) {
	p, ok := ctx.Value(key{}).(Principal)
	return p, ok
}

// OnBehalfOf is the submitter for whom a job calls; false where the caller has a token of its own, or there is none.
func OnBehalfOf(ctx context.Context) (string, bool) {
	p, ok := FromContext(ctx)
	return p.OnBehalfOf, ok && p.OnBehalfOf != ""
}

// NewContext is a context that FromContext reads, for tests of handlers.
func NewContext(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, key{}, p)
}
