package webhook

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lanyard-k8s/lanyard/mutate"
)

// The versions of AdmissionReview that are understood. They differ in nothing that is read or written here.
const (
	apiV1      = "admission.k8s.io/v1"
	apiV1Beta1 = "admission.k8s.io/v1beta1"
	kindReview = "AdmissionReview"
)

// review is the part of an AdmissionReview that a decision needs. object and oldObject are parts of the body.
type review struct {
	apiVersion  string
	kind        string
	uid         string
	objectKind  mutate.GroupKind
	group       string
	resource    string
	subresource string
	namespace   string
	operation   string
	username    string
	groups      []string
	dryRun      bool
	object      []byte
	oldObject   []byte
}

// errMalformed is what every error of parseReview and route is, for errors.Is.
var errMalformed = errors.New("malformed review")

// errTwice is a known name that stands twice in one object.
var errTwice = malformed("a name stands twice in an object of the review")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errMalformed}, args...)...)
}

// parseReview fills rv from a body as far as it can be read, so that the uid can be echoed even when what follows it is
// broken. Names are compared exactly, as the API server does; a known name that stands twice is refused. Names inside the
// objects are not looked at: the room that reads an object refuses its duplicates.
func parseReview(body []byte, rv *review) error {
	p := parser{body: body, dec: jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true))}
	if err := p.object(rv.topField); err != nil {
		return p.explain(err)
	}
	if rest := bytes.TrimLeft(body[p.dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return malformed("something follows the review")
	}
	switch {
	case rv.kind != kindReview:
		return malformed("kind must be AdmissionReview")
	case rv.apiVersion != apiV1 && rv.apiVersion != apiV1Beta1:
		return malformed("apiVersion must be %s or %s", apiV1, apiV1Beta1)
	case rv.uid == "":
		return malformed("request.uid is missing")
	}
	return nil
}

// parser reads one object after another. The fields of an object are numbered from 0 by the callback, which is how
// duplicates are noticed without a map.
type parser struct {
	body []byte
	dec  *jsontext.Decoder
}

// readField reads the value that belongs to name. It returns the name's number, or -1 for one that it does not know and whose
// value it left unread.
type readField func(p *parser, name string) (int, error)

// explain turns a decoder's error into one that names the place but nothing of the content.
func (p *parser) explain(err error) error {
	if errors.Is(err, errMalformed) {
		return err
	}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		return malformed("not valid JSON at byte %d", syntactic.ByteOffset)
	}
	return malformed("not valid JSON, it ends at byte %d", len(p.body))
}

func (p *parser) object(read readField) error {
	where := p.where()
	tok, err := p.dec.ReadToken()
	if err != nil {
		return err
	}
	if tok.Kind() != '{' {
		return malformed("%s must be an object", where)
	}
	var seen uint32
	for {
		tok, err = p.dec.ReadToken()
		if err != nil {
			return err
		}
		if tok.Kind() == '}' {
			return nil
		}
		n, err := read(p, tok.String())
		if err != nil {
			return err
		}
		if n < 0 {
			if err := p.dec.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if seen&(1<<n) != 0 {
			return errTwice
		}
		seen |= 1 << n
	}
}

// where is a fixed word for the level that is being read; names from the body are not repeated.
func (p *parser) where() string {
	if p.dec.StackDepth() == 0 {
		return "the body"
	}
	return "a part of the review"
}

func (p *parser) text(into *string) error {
	tok, err := p.dec.ReadToken()
	if err != nil {
		return err
	}
	switch tok.Kind() {
	case '"':
		*into = tok.String()
	case 'n':
		*into = ""
	default:
		return malformed("a name, kind or uid of the review is not a string")
	}
	return nil
}

func (p *parser) bool(into *bool) error {
	tok, err := p.dec.ReadToken()
	if err != nil {
		return err
	}
	switch tok.Kind() {
	case 't', 'f':
		*into = tok.Bool()
	case 'n':
	default:
		return malformed("request.dryRun is not a boolean")
	}
	return nil
}

// raw returns the next value as a part of the body; null is nil.
func (p *parser) raw(into *[]byte) error {
	v, err := p.dec.ReadValue()
	if err != nil {
		return err
	}
	end := p.dec.InputOffset()
	if v.Kind() != 'n' {
		*into = p.body[end-int64(len(v)) : end]
	}
	return nil
}

func (p *parser) texts(into *[]string) error {
	tok, err := p.dec.ReadToken()
	if err != nil {
		return err
	}
	if tok.Kind() == 'n' {
		return nil
	}
	if tok.Kind() != '[' {
		return malformed("request.userInfo.groups is not a list")
	}
	for {
		if p.dec.PeekKind() == ']' {
			_, err := p.dec.ReadToken()
			return err
		}
		var s string
		if err := p.text(&s); err != nil {
			return err
		}
		*into = append(*into, s)
	}
}
