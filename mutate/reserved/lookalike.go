package reserved

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// LookAlike says whether name is not reserved but reads like a reserved name to a person, to Windows (which ignores case)
// or to a library that maps '.' and '-' to '_'. The canonical spelling comes back for the message.
func LookAlike(name string) (canonical string, ok bool) {
	if !couldFold(name) || Reserved(name) {
		return "", false
	}
	canonical = fold(name)
	return canonical, Reserved(canonical)
}

// couldFold is a cheap filter: every reserved name folds to something that begins with N, so an ASCII name whose first
// letter is another one needs no folding.
func couldFold(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case c == 'n' || c == 'N' || c >= 0x80:
			return true
		case c > ' ' && c < 0x7f:
			return false
		}
	}
	return false
}

// fold maps a name to the spelling under which look-alikes meet: compatibility-composed, without invisible characters,
// upper-case, trimmed, '.' and '-' as '_'. What follows a '=' would be value and not name once a process starts.
func fold(name string) string {
	name, _, _ = strings.Cut(name, "=")
	name = strings.Map(func(r rune) rune {
		switch {
		case r == '.' || r == '-':
			return '_'
		case invisible(r):
			return -1
		default:
			return unicode.ToUpper(r)
		}
	}, norm.NFKC.String(name))
	return strings.TrimSpace(name)
}

// invisible says whether a character usually shows nothing: controls, formats (zero-width space, soft hyphen,
// directional marks), Unicode's default-ignorables and variation selectors. White space is trimmed, not removed.
func invisible(r rune) bool {
	if unicode.IsSpace(r) {
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
