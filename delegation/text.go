package delegation

import (
	"strings"
	"unicode/utf8"
)

// storable says whether every database can hold the texts: UTF-8 without the zero byte.
func storable(texts ...string) bool {
	for _, s := range texts {
		if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
			return false
		}
	}
	return true
}
