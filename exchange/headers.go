package exchange

import (
	"strings"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/internal/mint"
)

// The longest values that a trusted header carries, in bytes.
const (
	maxHeaderID   = 512
	maxHeaderList = 8 << 10
)

// trusted are the headers of an authenticated request, each of them always: a header that is left out would leave a client's own in
// place. A delegated token's actor is the principal, its subject the one on whose behalf; what is known of a person is the person's.
func (d *Desk) trusted(t mint.Token) map[string]string {
	out := make(map[string]string, 7)
	prefix := d.settings.Callout.HeaderPrefix
	for _, suffix := range wire.TrustedHeaders() {
		out[prefix+suffix] = ""
	}
	id, email, groups := wire.HeaderPrincipalID, wire.HeaderPrincipalEmail, wire.HeaderPrincipalGroups
	if t.Actor != "" {
		out[prefix+id] = t.Actor
		id, email, groups = wire.HeaderOnBehalfOf, wire.HeaderOnBehalfOfEmail, wire.HeaderOnBehalfOfGroups
	}
	out[prefix+id], out[prefix+email], out[prefix+groups] = t.Subject, t.Email, t.Groups
	out[prefix+wire.HeaderScopes] = t.Scope
	return out
}

// carried says whether headers can carry what a token says, unchanged.
func carried(t mint.Token) bool {
	visible := func(s string, most int, space bool) bool {
		return len(s) <= most && !strings.ContainsFunc(s, func(c rune) bool { return c > '~' || c < ' ' || (c == ' ' && !space) })
	}
	return visible(t.Subject, maxHeaderID, false) && visible(t.Actor, maxHeaderID, false) && visible(t.Email, maxHeaderID, false) &&
		visible(t.Groups, maxHeaderList, true) && visible(t.Scope, maxHeaderList, true)
}
