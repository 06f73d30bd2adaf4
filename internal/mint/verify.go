package mint

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
)

// Fault is why a token is not accepted. Its text is a metric label.
type Fault string

// The faults, in the order in which they are looked for.
const (
	Malformed    Fault = "malformed"   // no compact JWS of three parts, or longer than 8 KiB
	BadHeader    Fault = "header"      // the header holds more or less than alg, kid and typ
	BadAlg       Fault = "algorithm"   // an algorithm that is not allowed, or not the key's
	BadType      Fault = "type"        // another kind of JWT
	UnknownKey   Fault = "unknown_key" // no published key has this id
	BadSignature Fault = "signature"   // the signature is not the key's
	BadClaims    Fault = "claims"      // claims that are missing, doubled or of the wrong shape
	BadIssuer    Fault = "issuer"      // another issuer
	BadAudience  Fault = "audience"    // not for us
	Expired      Fault = "expired"     // its time is over
	NotYet       Fault = "not_yet"     // it is from the future
	BadSubject   Fault = "subject"     // a subject that no token may have
)

// Faults lists every fault once.
func Faults() []Fault {
	return []Fault{
		Malformed, BadHeader, BadAlg, BadType, UnknownKey, BadSignature, BadClaims, BadIssuer, BadAudience, Expired, NotYet, BadSubject,
	}
}

// Error is a fault. It holds nothing of the token.
type Error struct{ Fault Fault }

// Error is one line.
func (e *Error) Error() string { return "verify a token: " + string(e.Fault) }

// FaultOf is the fault of an error of Verify, empty for any other.
func FaultOf(err error) Fault {
	var e *Error
	if errors.As(err, &e) {
		return e.Fault
	}
	return ""
}

// maxToken is the longest token that is looked at, in bytes.
const maxToken = 8 << 10

// DefaultLeeway is how far clocks may differ.
const DefaultLeeway = 60 * time.Second

// Expectation is what a token must be.
type Expectation struct {
	// Issuer and Audience are compared byte for byte.
	Issuer   string
	Audience string
	// Algs are allowed; nil means all of Algs.
	Algs []Alg
	// Leeway is how far clocks may differ; zero means DefaultLeeway.
	Leeway time.Duration
	// Reserved says which subjects are never accepted; nil means none is reserved.
	Reserved func(subject string) bool
}

// Token is a verified token.
type Token struct {
	Subject  string
	Actor    string // empty unless it is delegated
	Email    string
	Groups   string
	Scope    string
	ClientID string
	ID       string
	KeyID    string
	IssuedAt time.Time
	Expiry   time.Time
}

// Verifier accepts tokens that are as expected and signed by a published key.
type Verifier struct {
	want Expectation
	key  func(id string) (PublicKey, bool)
}

// NewVerifier makes a verifier. key finds a published key by its id, which is anybody's text.
func NewVerifier(want Expectation, key func(id string) (PublicKey, bool)) (*Verifier, error) {
	if want.Issuer == "" || want.Audience == "" || key == nil || want.Leeway < 0 {
		return nil, errors.New("a verifier needs an issuer, an audience and keys")
	}
	if want.Leeway == 0 {
		want.Leeway = DefaultLeeway
	}
	if want.Algs == nil {
		want.Algs = Algs()
	}
	for _, a := range want.Algs {
		if !slices.Contains(Algs(), a) {
			return nil, fmt.Errorf("a verifier cannot allow the algorithm %q", a)
		}
	}
	return &Verifier{want: want, key: key}, nil
}

// Verify accepts a token or says why not, with an *Error. The header is judged before any key is looked for, and the signature before
// any claim is read.
func (v *Verifier) Verify(token string, now time.Time) (Token, error) {
	h, fault := v.header(token)
	if fault != "" {
		return Token{}, &Error{fault}
	}
	key, ok := v.key(h.KeyID)
	switch {
	case !ok || key.Key == nil || key.ID != h.KeyID:
		return Token{}, &Error{UnknownKey}
	case key.Alg != h.Alg:
		return Token{}, &Error{BadAlg}
	}
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(h.Alg)})
	if err != nil {
		return Token{}, &Error{Malformed}
	}
	payload, err := signed.Verify(key.Key)
	if err != nil {
		return Token{}, &Error{BadSignature}
	}
	t, fault := v.claims(payload, now)
	if fault != "" {
		return Token{}, &Error{fault}
	}
	t.KeyID = h.KeyID
	return t, nil
}

// header is all that a header of ours holds. Anything more is refused: jwk, jku, x5u and x5c bring keys along, crit changes
// what the rest means.
type header struct {
	Alg   Alg    `json:"alg"`
	KeyID string `json:"kid"`
	Type  string `json:"typ"`
}

func (v *Verifier) header(token string) (h header, fault Fault) {
	if len(token) > maxToken || strings.Count(token, ".") != 2 {
		return h, Malformed
	}
	if strings.ContainsAny(token, "\r\n") { // which decoding passes over
		return h, Malformed
	}
	parts, raw := strings.Split(token, "."), []byte(nil)
	for i, part := range parts { // one spelling each: the library takes spare bits for nothing
		decoded, err := base64.RawURLEncoding.Strict().DecodeString(part)
		if err != nil {
			return h, Malformed
		}
		if i == 0 {
			raw = decoded
		}
	}
	if err := json.Unmarshal(raw, &h, json.RejectUnknownMembers(true)); err != nil {
		return h, BadHeader
	}
	kind := strings.ToLower(h.Type)
	switch {
	case !slices.Contains(v.want.Algs, h.Alg):
		return h, BadAlg
	case kind != tokenType && kind != "application/"+tokenType:
		return h, BadType
	case !validKeyID(h.KeyID):
		return h, UnknownKey
	default:
		return h, ""
	}
}
