package nodebinding

import "strings"

// maxToken is the longest token that is worth a review, in bytes. The API server's own tokens have about 1,000.
const maxToken = 8 << 10

const bearer = "bearer "

// Token is a credential that passed ReadHeader. It does not show in logs or errors, not even from within a struct whose
// fields fmt prints without asking for String: it points at the header's value instead of holding it.
type Token struct{ value *string }

// Reveal returns the credential itself, for the review alone.
func (t Token) Reveal() string {
	if t.value == nil {
		return ""
	}
	return (*t.value)[len(bearer):]
}

// String hides the credential.
func (t Token) String() string { return "[token]" }

// GoString hides the credential from %#v.
func (t Token) GoString() string { return "nodebinding.Token{}" }

// ReadHeader looks at all values of the authorization metadata. There is a token only when the credential is
// CredentialPresented; all else is decided without asking the API server. That matters: a real API server accepts a
// credential that starts with a space as system:anonymous and even echoes the audience.
//
// Malformed is more than one value, another scheme than Bearer (in any case), no credential, or one with any byte that is
// not printable ASCII or is a space. A clean word is unusable when it is longer than 8 KiB or not three parts of
// base64url in its one canonical form (RFC 7515): a token has no second spelling that would count as another token. The
// values must not change while the token is in use.
func ReadHeader(values []string) (Token, Credential) {
	if len(values) == 0 {
		return Token{}, CredentialAbsent
	}
	if len(values) > 1 || !hasBearer(values[0]) {
		return Token{}, CredentialMalformed
	}
	word := values[0][len(bearer):]
	switch {
	case word == "" || !printable(word):
		return Token{}, CredentialMalformed
	case len(word) > maxToken || !threeParts(word):
		return Token{}, CredentialUnusable
	default:
		return Token{value: &values[0]}, CredentialPresented
	}
}

func hasBearer(value string) bool {
	if len(value) < len(bearer) {
		return false
	}
	for i := range len(bearer) {
		c := value[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != bearer[i] {
			return false
		}
	}
	return true
}

func printable(word string) bool {
	for i := range len(word) {
		if word[i] <= ' ' || word[i] > '~' {
			return false
		}
	}
	return true
}

func threeParts(word string) bool {
	header, rest, _ := strings.Cut(word, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	return canonical(header) && canonical(payload) && canonical(signature)
}

// canonical says whether a part is non-empty base64url without padding and without stray bits in its last letter.
func canonical(part string) bool {
	if part == "" {
		return false
	}
	for i := range len(part) {
		if sextet(part[i]) < 0 {
			return false
		}
	}
	last := sextet(part[len(part)-1])
	switch len(part) % 4 {
	case 0:
		return true
	case 2:
		return last&0b1111 == 0
	case 3:
		return last&0b11 == 0
	default:
		return false
	}
}

// sextet is the value of a base64url letter, or -1.
func sextet(c byte) int {
	switch {
	case 'A' <= c && c <= 'Z':
		return int(c - 'A')
	case 'a' <= c && c <= 'z':
		return int(c-'a') + 26
	case '0' <= c && c <= '9':
		return int(c-'0') + 52
	case c == '-':
		return 62
	case c == '_':
		return 63
	default:
		return -1
	}
}
