package client

import "github.com/lanyard-k8s/lanyard/internal/tokenfile"

// secret holds a token where nothing that prints a structure finds it: package fmt shows a function's address, and
// encoding/json refuses one.
type secret func() string

func conceal(token string) secret { return func() string { return token } }

// tokenAtMost is the longest token, in bytes; neither the connector nor the exchange takes a longer one.
const tokenAtMost = tokenfile.Most

// visible says whether a text is visible ASCII without spaces, as tokens are.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
