package obs

import (
	"fmt"
	"io"
	"slices"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Visible escapes in JSON what JSON need not escape and no text should hold that a person looks at: the controls from U+007F to U+009F,
// one of which is ESC [ to some terminals and hides a whole line in journalctl, and what turns a text's direction around.
func Visible(text []byte) []byte {
	if !slices.ContainsFunc(text, func(b byte) bool { return b >= 0x7f }) {
		return text
	}
	out := make([]byte, 0, len(text)+32)
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r >= 0x7f && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			for _, unit := range utf16.AppendRune(nil, r) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		} else {
			out = append(out, text[:n]...)
		}
		text = text[n:]
	}
	return out
}

// visible writes lines of JSON.
type visible struct{ w io.Writer }

func (v visible) Write(line []byte) (int, error) {
	if _, err := v.w.Write(Visible(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}
