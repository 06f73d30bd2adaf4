package grant

import (
	"slices"
	"strings"
)

// The longest names in bytes. The longest username of a service account has 339.
const (
	maxID    = 512
	maxEmail = 254
)

// The most groups that are put into a token, and their length together: the token must fit into a header.
const (
	maxGroups     = 100
	maxGroupBytes = 4 << 10
)

// validID says whether a subject, an actor, an audience or an issuer can stand in a token and in a header: visible ASCII without
// spaces, of bounded length. What fails is refused and never cut: two long names would become one.
func validID(s string) bool {
	return s != "" && len(s) <= maxID && visible(s)
}

func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// validScope is RFC 6749's scope-token.
func validScope(s string) bool {
	return s != "" && len(s) <= 256 && visible(s) && !strings.ContainsAny(s, `"\`)
}

// reserved says whether a name is one of the platform's own, in whatever case it is written.
func reserved(s string) (service, system bool) {
	lower := strings.ToLower(s)
	return strings.HasPrefix(lower, "service:"), strings.HasPrefix(lower, "system:")
}

// Reserved says whether no token may have this subject: "service:" in front always, "system:" unless the full name is listed.
func (r Rules) Reserved(subject string) bool {
	service, system := reserved(subject)
	return service || system && !slices.Contains(r.SystemSubjects, subject)
}

// Source says where a person's attributes come from.
type Source string

// The sources. The zero value is not trusted.
const (
	// Configured: the exchange's own configuration, or a directory that it names.
	Configured Source = "configured"
	// Stamped: a field that a policy makes as true as the creator's stamp.
	Stamped Source = "stamped"
)

// Attributes are what is known of a submitter besides the name.
type Attributes struct {
	Source Source
	Email  string
	Groups []string
}

// trusted says whether the attributes may stand in a token at all.
func (a Attributes) trusted() bool { return a.Source == Configured || a.Source == Stamped }

// email is the claim, or nothing.
func (a Attributes) email() (string, int) {
	local, domain, found := strings.Cut(a.Email, "@")
	switch {
	case a.Email == "":
		return "", 0
	case !found || local == "" || domain == "" || strings.Contains(domain, "@") || len(a.Email) > maxEmail || !visible(a.Email) || strings.Contains(a.Email, ","):
		return "", 1
	default:
		return a.Email, 0
	}
}

// groups is the claim, a comma-separated list, and how many were dropped: names that could be read as two, that hold what no header does,
// that are Kubernetes' own, or that are too many.
func (a Attributes) groups() (string, int) {
	var kept []string
	dropped, length := 0, 0
	for _, g := range a.Groups {
		switch {
		case slices.Contains(kept, g):
		case !validGroup(g) || len(kept) == maxGroups || length+len(g)+1 > maxGroupBytes:
			dropped++
		default:
			kept, length = append(kept, g), length+len(g)+1
		}
	}
	return strings.Join(kept, ","), dropped
}

// validGroup allows spaces inside a name, which directories have.
func validGroup(g string) bool {
	_, system := reserved(g)
	if g == "" || system || strings.TrimSpace(g) != g || strings.Contains(g, ",") {
		return false
	}
	for i := range len(g) {
		if g[i] < ' ' || g[i] > '~' {
			return false
		}
	}
	return true
}
