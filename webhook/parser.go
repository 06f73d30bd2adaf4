package webhook

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// maxGroups bounds the groups of the user who asks: a short name takes many times its text. Directories give people some hundreds.
const maxGroups = 10_000

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
		if len(*into) == maxGroups {
			return malformed("request.userInfo.groups has more than %d elements", maxGroups)
		}
		var s string
		if err := p.text(&s); err != nil {
			return err
		}
		*into = append(*into, s)
	}
}
