package mint

import (
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// payload is what is read of the claims. Names are compared exactly and none may stand twice, which encoding/json would not mind: it
// would take "Sub" for "sub", and the last of two.
type payload struct {
	Issuer    string         `json:"iss"`
	Subject   string         `json:"sub"`
	Actor     *actor         `json:"act"`
	Audience  jsontext.Value `json:"aud"`
	Expiry    jsontext.Value `json:"exp"`
	NotBefore jsontext.Value `json:"nbf"`
	IssuedAt  jsontext.Value `json:"iat"`
	ID        string         `json:"jti"`
	ClientID  string         `json:"client_id"`
	Email     string         `json:"email"`
	Groups    string         `json:"groups"`
	Scope     string         `json:"scope"`
}

// actor is the outermost one, who acts now. Actors inside it are history (RFC 8693 section 4.1).
type actor struct {
	Subject string `json:"sub"`
}

// claims judges what the key has signed.
func (v *Verifier) claims(raw []byte, now time.Time) (Token, Fault) {
	var p payload
	if err := json.Unmarshal(raw, &p); err != nil {
		return Token{}, BadClaims
	}
	audiences, ok := listOrOne(p.Audience)
	expiry, ok2 := date(p.Expiry)
	issued, ok3 := date(p.IssuedAt)
	notBefore, ok4 := issued, true
	if p.NotBefore != nil {
		notBefore, ok4 = date(p.NotBefore)
	}
	switch {
	case !ok || !ok2 || !ok3 || !ok4, p.Subject == "" || p.ClientID == "" || p.ID == "", p.Actor != nil && p.Actor.Subject == "":
		return Token{}, BadClaims
	case p.Issuer != v.want.Issuer:
		return Token{}, BadIssuer
	case !slices.Contains(audiences, v.want.Audience):
		return Token{}, BadAudience
	case !now.Before(expiry.Add(v.want.Leeway)):
		return Token{}, Expired
	case notBefore.After(now.Add(v.want.Leeway)) || issued.After(now.Add(v.want.Leeway)):
		return Token{}, NotYet
	case v.want.Reserved != nil && v.want.Reserved(p.Subject):
		return Token{}, BadSubject
	}
	t := Token{
		Subject: p.Subject, Email: p.Email, Groups: p.Groups, Scope: p.Scope, ClientID: p.ClientID, ID: p.ID, IssuedAt: issued, Expiry: expiry,
	}
	if p.Actor != nil {
		t.Actor = p.Actor.Subject
	}
	return t, ""
}

// listOrOne reads a string or an array of strings, as "aud" may be either.
func listOrOne(v jsontext.Value) ([]string, bool) {
	var one string
	if json.Unmarshal(v, &one) == nil && v.Kind() == '"' {
		return []string{one}, true
	}
	var list []string
	if v.Kind() != '[' || json.Unmarshal(v, &list) != nil {
		return nil, false
	}
	return list, len(list) > 0
}

// date reads a NumericDate (RFC 7519 section 2): seconds since 1970, perhaps with a fraction. A string, null and nothing are no number.
func date(v jsontext.Value) (time.Time, bool) {
	seconds, err := strconv.ParseFloat(string(v), 64)
	if err != nil || seconds < 0 || seconds >= 1<<40 {
		return time.Time{}, false
	}
	whole := int64(seconds)
	return time.Unix(whole, int64((seconds-float64(whole))*1e9)), true
}
