package grant

import (
	"mime"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// The words of RFC 8693 that this endpoint knows, and the private type of Docker's proofs.
const (
	GrantType             = "urn:ietf:params:oauth:grant-type:token-exchange"
	TokenTypeAccess       = "urn:ietf:params:oauth:token-type:access_token"
	TokenTypeJWT          = "urn:ietf:params:oauth:token-type:jwt"
	TokenTypeDocker       = "urn:nvidia:nemo:params:oauth:token-type:docker-opaque-workload-proof"
	formType              = "application/x-www-form-urlencoded"
	maxAudience, maxScope = 512, 4096
)

// The longest body and subject token that are read, in bytes.
const (
	MaxBody    = 64 << 10
	MaxSubject = 8 << 10
)

// Request is a well-formed question. Only ParseRequest makes one that Decide answers.
type Request struct {
	// SubjectTokenType is TokenTypeJWT or TokenTypeDocker: which verifier is asked, and no other.
	SubjectTokenType string
	// SubjectToken is the proof. It prints with the request: never print one.
	SubjectToken string
	// Audience is the one asked for, or the default; it is one of the rules'.
	Audience string
	// Scopes are the words asked for, in their order, none twice.
	Scopes []string
}

// String hides the subject token.
func (q Request) String() string {
	return "exchange of " + q.SubjectTokenType + " for " + q.Audience
}

// GoString hides it too.
func (q Request) GoString() string { return q.String() }

// ParseRequest reads the form, and refuses what may not be asked, by the first fault in the specified order. The query is that
// of the URL, which must be empty: only the body counts. A nil refusal means that the proof is to be verified.
func ParseRequest(r Rules, contentType, rawQuery string, body []byte) (Request, *Refusal) {
	q, why := parse(r, contentType, rawQuery, body)
	if why != "" {
		refusal := Refuse(why)
		return Request{}, &refusal
	}
	return q, nil
}

func parse(r Rules, contentType, rawQuery string, body []byte) (Request, Reason) {
	if !r.Enabled {
		return Request{}, Disabled
	}
	form, why := readForm(contentType, rawQuery, body)
	if why != "" {
		return Request{}, why
	}
	if why := askedFor(r, form); why != "" {
		return Request{}, why
	}
	q := Request{SubjectTokenType: form.Get("subject_token_type"), SubjectToken: form.Get("subject_token"), Audience: form.Get("audience")}
	if q.Audience == "" {
		q.Audience = r.DefaultAudience
	}
	switch {
	case q.SubjectToken == "":
		return Request{}, SubjectMissing
	case len(q.SubjectToken) > MaxSubject:
		return Request{}, SubjectTooLong
	case len(q.Audience) > maxAudience || !slices.Contains(r.Audiences, q.Audience):
		return Request{}, AudienceDenied
	}
	q.Scopes = scopes(form.Get("scope"))
	return q, ""
}

// readForm decodes the body. Go's own ParseForm gives an empty form for other types of content, and merges the query: the caller would
// be told that grant_type is missing, or leave its token in access logs.
func readForm(contentType, rawQuery string, body []byte) (url.Values, Reason) {
	media, _, err := mime.ParseMediaType(contentType)
	switch {
	case err != nil || media != formType:
		return nil, ContentType
	case rawQuery != "":
		return nil, QueryPresent
	case len(body) > MaxBody:
		return nil, BodyTooLong
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, BodyMalformed
	}
	repeated := false
	for name, values := range form {
		if !clean(name) || slices.ContainsFunc(values, func(v string) bool { return !clean(v) }) {
			return nil, BodyMalformed
		}
		repeated = repeated || len(values) > 1
	}
	if repeated {
		return nil, ParameterRepeated
	}
	return form, ""
}

// clean says whether a value is UTF-8 without controls. A newline at a token's end is a control: it is refused, never trimmed.
func clean(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(c rune) bool { return c < 0x20 || c == 0x7f })
}

// askedFor checks what is asked, up to the audience. An empty value is an absent one, but for those three that change what is
// asked for merely by being there.
func askedFor(r Rules, form url.Values) Reason {
	switch requested := form.Get("requested_token_type"); {
	case form.Get("grant_type") == "":
		return GrantTypeMissing
	case form.Get("grant_type") != GrantType:
		return GrantTypeUnsupported
	case form.Get("client_id") != r.ClientID || r.ClientID == "" || form.Get("client_secret") != "" || form.Get("client_assertion") != "":
		return ClientUnknown
	case form.Get("subject_token_type") != TokenTypeJWT && form.Get("subject_token_type") != TokenTypeDocker:
		return SubjectTypeUnsupported
	case requested != "" && requested != TokenTypeAccess:
		return RequestedTypeUnsupported
	case form.Has("actor_token") || form.Has("actor_token_type"):
		return ActorPresent
	case form.Has("resource"):
		return ResourcePresent
	default:
		return ""
	}
}

// scopes splits a scope parameter. Words that are none, and a list that is too long, are left out: scope only ever narrows.
func scopes(text string) []string {
	if len(text) > maxScope {
		return nil
	}
	var words []string
	for word := range strings.SplitSeq(text, " ") {
		if validScope(word) && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return words
}
