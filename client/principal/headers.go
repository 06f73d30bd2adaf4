package principal

import (
	"net/http"
	"slices"
	"strings"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// trusted are the headers that say who calls, under each of the configured prefixes.
type trusted struct {
	prefixes []string // as they are set
	under    []string // folded: every name that starts so is taken off
	exact    []string // folded
}

func newTrusted(prefixes []string) trusted {
	t := trusted{prefixes: prefixes}
	for _, p := range prefixes {
		t.under = append(t.under, fold(p+strings.TrimSuffix(wire.HeaderPrincipal, "-")))
		for _, suffix := range wire.DroppedHeaders() {
			t.exact = append(t.exact, fold(p+suffix))
		}
	}
	return t
}

// fold is a header's name as a lax reader may take it: CGI and its heirs read "_" for "-", some "." too.
func fold(name string) string {
	return strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(strings.TrimSpace(name)))
}

// names says whether a header is one that only the platform may set.
func (t trusted) names(header string) bool {
	name := fold(header)
	return slices.Contains(t.exact, name) || slices.ContainsFunc(t.under, func(p string) bool { return strings.HasPrefix(name, p) })
}

// strip takes what the client claims off: trusted headers in any spelling, trailers of such names, and their names in Connection, which
// would have a proxy behind us take off what is set here.
func (t trusted) strip(r *http.Request) {
	for _, h := range []http.Header{r.Header, r.Trailer} {
		for name := range h {
			if t.names(name) {
				delete(h, name)
			}
		}
	}
	for name, lines := range r.Header {
		if !strings.EqualFold(name, "Connection") && !strings.EqualFold(name, "Trailer") {
			continue
		}
		kept := slices.DeleteFunc(strings.Split(strings.Join(lines, ","), ","), t.names)
		if r.Header[name] = []string{strings.Join(kept, ",")}; len(kept) == 0 {
			delete(r.Header, name)
		}
	}
}

// set writes who calls, each header always: one that is left out would be whatever somebody else makes of it.
func (t trusted) set(h http.Header, p Principal) {
	id, behalf := p.ID, p.OnBehalfOf
	groups, scopes := strings.Join(p.Groups, ","), strings.Join(p.Scopes, " ")
	values := map[string]string{wire.HeaderPrincipalID: id, wire.HeaderOnBehalfOf: behalf, wire.HeaderScopes: scopes}
	if behalf != "" {
		values[wire.HeaderOnBehalfOfEmail], values[wire.HeaderOnBehalfOfGroups] = p.Email, groups
	} else {
		values[wire.HeaderPrincipalEmail], values[wire.HeaderPrincipalGroups] = p.Email, groups
	}
	for _, prefix := range t.prefixes {
		for _, suffix := range wire.TrustedHeaders() {
			h[http.CanonicalHeaderKey(prefix+suffix)] = []string{values[suffix]}
		}
	}
}
