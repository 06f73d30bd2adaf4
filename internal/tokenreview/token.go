package tokenreview

import (
	"encoding/base64"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxToken is the longest token that is looked at, in bytes. Real ones have about a thousand.
const maxToken = 8 << 10

// expiryLeeway is how far a token may be past its expiry and still be sent for review: our clock may be ahead. No verdict
// is given for it either way, but the refusal is then the API server's.
const expiryLeeway = 5 * time.Second

// claims is what a token says of itself. Before the review it is anybody's word and serves to refuse only.
type claims struct {
	audiences []string
	expiry    time.Time
	podUID    string
}

// payload is the part of a service account token's payload that is looked at.
type payload struct {
	Audience   jsontext.Value `json:"aud"`
	Expiry     float64        `json:"exp"`
	Kubernetes struct {
		Pod struct {
			UID string `json:"uid"`
		} `json:"pod"`
	} `json:"kubernetes.io"`
}

// read refuses whatever cannot be a service account token, and tells what the rest says of itself. A token has exactly one
// spelling here: other spellings of the same bytes would be as many strangers to the cache.
func read(token string) (claims, error) {
	if len(token) > maxToken {
		return claims{}, invalid("longer than any service account token")
	}
	parts := strings.SplitN(token, ".", 4)
	if len(parts) != 3 {
		return claims{}, invalid("not three parts")
	}
	var decoded [3][]byte
	for i, part := range parts {
		var ok bool
		if decoded[i], ok = decodePart(part); !ok {
			return claims{}, invalid("a part that is not base64url")
		}
	}
	var p payload
	if err := json.Unmarshal(decoded[1], &p); err != nil {
		return claims{}, invalid("a payload that is not a service account token's")
	}
	c := claims{podUID: p.Kubernetes.Pod.UID}
	var one string
	if json.Unmarshal(p.Audience, &one) == nil {
		c.audiences = []string{one}
	} else if json.Unmarshal(p.Audience, &c.audiences) != nil {
		return claims{}, invalid("an audience that is neither a string nor a list of strings")
	}
	if p.Expiry < 1 || p.Expiry >= 1<<53 {
		return claims{}, invalid("no expiry; legacy tokens from Secrets have none")
	}
	c.expiry = time.Unix(int64(p.Expiry), 0)
	return c, nil
}

// decodePart decodes one part strictly: the decoder alone would skip newlines and, were it not told, spare bits at the end.
func decodePart(part string) ([]byte, bool) {
	if part == "" {
		return nil, false
	}
	for i := range len(part) {
		c := part[i]
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return nil, false
		}
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(part)
	return b, err == nil
}

// scrubbed is a text without the token or a part of it, on one line and of bounded length. Reviewers may quote what they
// were sent.
func scrubbed(text, token string) string {
	const most = 300
	for _, secret := range append([]string{token}, strings.Split(token, ".")...) {
		if len(secret) >= 8 {
			text = strings.ReplaceAll(text, secret, "[token]")
		}
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
