package principal

import (
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Reason is why a request was not let pass. Its text is fit for a metric label.
type Reason string

// The reasons, in the order in which they are looked for.
const (
	NoToken      Reason = "no_token"    // no Authorization header, several, or another scheme than Bearer
	Malformed    Reason = "malformed"   // no compact JWS of three parts, each in its one spelling, or longer than 8 KiB
	BadHeader    Reason = "header"      // the header holds more or less than alg, kid and typ
	BadAlgorithm Reason = "algorithm"   // an algorithm that is not allowed, or not the key's
	BadType      Reason = "type"        // another kind of JWT
	Unavailable  Reason = "unavailable" // the exchange's keys are not to be had, or whether it has this one; no verdict on the token
	UnknownKey   Reason = "unknown_key" // no published key has this id
	BadSignature Reason = "signature"   // the signature is not the key's
	BadClaims    Reason = "claims"      // claims that are missing, doubled or of the wrong shape
	BadIssuer    Reason = "issuer"      // another issuer
	BadAudience  Reason = "audience"    // not for this service
	Expired      Reason = "expired"     // its time is over
	NotYet       Reason = "not_yet"     // it is from the future
	BadSubject   Reason = "subject"     // a subject that no token may have, or no header can carry
)

// Reasons lists every reason once.
func Reasons() []Reason {
	return []Reason{
		NoToken, Malformed, BadHeader, BadAlgorithm, BadType, Unavailable, UnknownKey, BadSignature, BadClaims, BadIssuer, BadAudience, Expired, NotYet, BadSubject,
	}
}

// Error is a refusal. It holds nothing of the token.
type Error struct{ Reason Reason }

// Error is one line.
func (e *Error) Error() string { return "verify an access token: " + string(e.Reason) }

// ReasonOf is the reason of an error of Verify, empty for any other.
func ReasonOf(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

const (
	tokenAtMost = 8 << 10
	idAtMost    = 512
	listAtMost  = 8 << 10
	leeway      = 60 * time.Second
	tokenType   = "at+jwt" // RFC 9068 section 2.1
)

// header is all that the exchange's headers hold. Anything more is refused: jwk, jku, x5u and x5c bring keys along, crit changes what the
// rest means.
type header struct {
	Algorithm string `json:"alg"`
	KeyID     string `json:"kid"`
	Type      string `json:"typ"`
}

// readHeader judges a token before any key is looked for.
func readHeader(token string) (h header, why Reason) {
	if len(token) > tokenAtMost || strings.Count(token, ".") != 2 || !visible(token, false) {
		return h, Malformed
	}
	parts, raw := strings.Split(token, "."), []byte(nil)
	for i, part := range parts { // one spelling each, as the exchange has it: the library takes spare bits for nothing
		decoded, err := base64.RawURLEncoding.Strict().DecodeString(part)
		if err != nil {
			return h, Malformed
		}
		if i == 0 {
			raw = decoded
		}
	}
	if json.Unmarshal(raw, &h, json.RejectUnknownMembers(true)) != nil {
		return h, BadHeader
	}
	kind := strings.ToLower(h.Type)
	switch {
	case !slices.Contains(algorithms(), jose.SignatureAlgorithm(h.Algorithm)):
		return h, BadAlgorithm
	case kind != tokenType && kind != "application/"+tokenType:
		return h, BadType
	case h.KeyID == "" || len(h.KeyID) > keyIDAtMost:
		return h, UnknownKey
	}
	return h, ""
}

// payload is what is read of the claims. Names are compared exactly and none may stand twice, which encoding/json would not mind: it
// would take "Sub" for "sub", and the last of two.
type payload struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Actor    *actor `json:"act"`
	ClientID string `json:"client_id"`
	ID       string `json:"jti"`
	Email    string `json:"email"`
	Groups   string `json:"groups"`
	Scope    string `json:"scope"`

	Audience  jsontext.Value `json:"aud"`
	Expiry    jsontext.Value `json:"exp"`
	NotBefore jsontext.Value `json:"nbf"`
	IssuedAt  jsontext.Value `json:"iat"`
}

// actor is who acts now. Actors inside it are history (RFC 8693 section 4.1).
type actor struct {
	Subject string `json:"sub"`
}

// judge reads what the key has signed.
func (g *Guard) judge(raw []byte, now time.Time) (Principal, Reason) {
	var p payload
	if json.Unmarshal(raw, &p) != nil {
		return Principal{}, BadClaims
	}
	audience, okAudience := list(p.Audience)
	expiry, okExpiry := date(p.Expiry)
	issued, okIssued := date(p.IssuedAt)
	notBefore, okBefore := issued, true
	if p.NotBefore != nil {
		notBefore, okBefore = date(p.NotBefore)
	}
	switch {
	case !okAudience || !okExpiry || !okIssued || !okBefore, p.Subject == "" || p.ClientID == "" || p.ID == "", p.Actor != nil && p.Actor.Subject == "":
		return Principal{}, BadClaims
	case p.Issuer != g.o.Issuer:
		return Principal{}, BadIssuer
	case !slices.Contains(audience, g.o.Audience):
		return Principal{}, BadAudience
	case !now.Before(expiry.Add(leeway)):
		return Principal{}, Expired
	case notBefore.After(now.Add(leeway)) || issued.After(now.Add(leeway)):
		return Principal{}, NotYet
	}
	return g.identity(p)
}

// identity says who a good token is about.
func (g *Guard) identity(p payload) (Principal, Reason) {
	who := Principal{ID: p.Subject, Email: p.Email, Scopes: strings.Fields(p.Scope)}
	if p.Actor != nil {
		who.ID, who.OnBehalfOf = p.Actor.Subject, p.Subject
	}
	if p.Groups != "" {
		who.Groups = strings.Split(p.Groups, ",")
	}
	lower := strings.ToLower(p.Subject)
	switch {
	case strings.HasPrefix(lower, "service:"), strings.HasPrefix(lower, "system:") && !slices.Contains(g.o.SystemSubjects, p.Subject):
		return Principal{}, BadSubject
	case max(len(who.ID), len(who.OnBehalfOf), len(p.Email)) > idAtMost, max(len(p.Groups), len(p.Scope)) > listAtMost,
		!visible(who.ID+who.OnBehalfOf+p.Email, false), !visible(p.Groups+p.Scope, true):
		return Principal{}, BadSubject
	}
	return who, ""
}

// visible says whether a header can carry a text unchanged.
func visible(s string, space bool) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c > '~' || c < ' ' || c == ' ' && !space })
}

// list reads a string or an array of strings, as "aud" may be either. Null among them would read as the empty string, which is
// never an audience.
func list(v jsontext.Value) ([]string, bool) {
	var one string
	if v.Kind() == '"' && json.Unmarshal(v, &one) == nil {
		return []string{one}, true
	}
	var all []string
	if v.Kind() != '[' || json.Unmarshal(v, &all) != nil {
		return nil, false
	}
	return all, len(all) > 0
}

// date reads a NumericDate (RFC 7519 section 2): seconds since 1970, perhaps with a fraction. A string, null and nothing are no number.
func date(v jsontext.Value) (time.Time, bool) {
	seconds, err := strconv.ParseFloat(string(v), 64)
	if err != nil || v.Kind() != '0' || seconds < 0 || seconds >= 1<<40 {
		return time.Time{}, false
	}
	whole := int64(seconds)
	return time.Unix(whole, int64((seconds-float64(whole))*1e9)), true
}
