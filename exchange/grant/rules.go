package grant

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Rules are what the exchange was configured with. The zero Rules are disabled.
type Rules struct {
	// Enabled turns workload token exchange on.
	Enabled bool
	// Issuer is the claim "iss", byte for byte; it is never taken from a request.
	Issuer string
	// ClientID is the one public client, and the audience of the Kubernetes subject tokens.
	ClientID string
	// Audiences are all that tokens are issued for; DefaultAudience is taken where none is asked for.
	Audiences       []string
	DefaultAudience string
	// Scopes are all that is ever granted.
	Scopes []string
	// TTL is a token's longest life.
	TTL time.Duration
	// SystemSubjects are the submitters in front of which "system:" may stand, by their full names.
	SystemSubjects []string
	// Email and Groups put these claims into tokens, where their source is trusted.
	Email  bool
	Groups bool
}

// MinLeft is the least life that a row or a subject token must have left, and so the shortest life of a token.
const MinLeft = 30 * time.Second

// maxTTL bounds what configuration can ask for: an issued token cannot be taken back from those who verify it by themselves.
const maxTTL = time.Hour

// Validate finds what makes rules unusable, all at once.
func (r Rules) Validate() error {
	if !r.Enabled {
		return nil
	}
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(strings.HasPrefix(r.Issuer, "https://") && validID(r.Issuer), "the issuer must be an https URL")
	check(validID(r.ClientID), "the client id must be given")
	check(!slices.Contains(r.Audiences, r.ClientID), "the audience %q is the subject tokens' own: an issued token could be exchanged again", r.ClientID)
	check(slices.Contains(r.Audiences, r.DefaultAudience), "the default audience %q must be one of the audiences", r.DefaultAudience)
	check(!slices.ContainsFunc(r.Audiences, func(a string) bool { return !validID(a) }), "an audience is empty or has letters that no audience has")
	check(!slices.ContainsFunc(r.Scopes, func(s string) bool { return !validScope(s) }), "a scope is empty or has letters that no scope has (RFC 6749, section 3.3)")
	check(r.TTL >= MinLeft && r.TTL <= maxTTL && r.TTL%time.Second == 0, "a token's life must be whole seconds between %v and %v", MinLeft, maxTTL)
	for _, s := range r.SystemSubjects {
		check(strings.HasPrefix(s, "system:") && validID(s), "the submitter %q needs no leave: only names in \"system:\" do", s)
	}
	return errors.Join(errs...)
}
