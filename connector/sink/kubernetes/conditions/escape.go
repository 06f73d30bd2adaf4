package conditions

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The words that Parse looks for.
const (
	separator   = ";"
	codePrefix  = "ErrorCode:"
	actionWord  = "Recommended Action="
	plainPrefix = "- " // stands before a text that would be taken for something else
)

// Bounds within an entry, in bytes. An entry always fits into a message.
const (
	tokenMost    = 80
	digestSize   = 7
	textMost     = 480
	codesMost    = 120
	entitiesMost = 400
)

// token makes one word of a string: a code, an entity's type or value, or an action. Two strings hardly become the
// same word: what is beyond the bound is replaced by a digest, and spaces, controls, the separator and "%" are written as in a URL, and so is ":" where it would end an entity's type.
func token(s string, also string) string {
	var out strings.Builder
	whole := 0 // where to cut if the word is too long: never within a piece
	for _, r := range strings.ToValidUTF8(s, "?") {
		piece := string(r)
		if r == '%' || r == ';' || unicode.IsSpace(r) || !unicode.IsGraphic(r) || strings.ContainsRune(also, r) {
			piece = hexed(piece)
		}
		if out.Len()+len(piece) > tokenMost {
			return out.String()[:whole] + "~" + short([]string{s})
		}
		out.WriteString(piece)
		if out.Len() <= tokenMost-digestSize {
			whole = out.Len()
		}
	}
	return out.String()
}

func hexed(s string) string {
	var out strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&out, "%%%02X", s[i])
	}
	return out.String()
}

// entityType is token, and never "ErrorCode", which would make a code of the entity.
func entityType(s string) string {
	t := token(s, ":")
	if t+":" == codePrefix {
		return hexed(t[:1]) + t[1:]
	}
	return t
}

// text makes one line of a string: the separator becomes a comma, controls and other white space a single space. The words
// that Parse looks for are changed, and a text that begins like an entity, or like the list of what was left out, gets "- "
// before it. A text that has been through this is not changed by it again.
func text(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == ';':
			return ','
		case unicode.IsSpace(r) || !unicode.IsGraphic(r):
			return ' '
		default:
			return r
		}
	}, strings.ToValidUTF8(s, "?"))
	s = strings.Join(strings.Fields(s), " ")
	s = strings.ReplaceAll(s, codePrefix, "ErrorCode=")
	s = strings.ReplaceAll(s, actionWord, "Recommended Action ")
	s = strings.Join(strings.Fields(s), " ")
	first, _, _ := strings.Cut(s, " ")
	if strings.Contains(first, ":") || strings.HasPrefix(first, "+") {
		s = plainPrefix + s
	}
	return cut(s, textMost)
}

// cut shortens to so many bytes, at the end of a rune.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return strings.TrimRight(s[:most], " ")
}
