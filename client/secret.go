package client

import (
	"bytes"
	"errors"
	"os"
)

// secret holds a token where nothing that prints a structure finds it: package fmt shows a function's address, and
// encoding/json refuses one.
type secret func() string

func conceal(token string) secret { return func() string { return token } }

// tokenAtMost is the longest token, in bytes; neither the connector nor the exchange takes a longer one.
const tokenAtMost = 8 << 10

// readToken reads a token, trimmed, and says what is wrong with a file that holds none, without showing what it holds.
func readToken(path string, trim func([]byte) []byte) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		var at *os.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		return "", errors.New("token file " + path + ": " + err.Error())
	}
	token := trim(raw)
	switch {
	case len(token) == 0:
		return "", errors.New("token file " + path + ": is empty")
	case len(token) > tokenAtMost:
		return "", errors.New("token file " + path + ": is longer than any token")
	case !visible(string(token)):
		return "", errors.New("token file " + path + ": holds a space, a line break or a byte that is not ASCII within the token")
	}
	return string(token), nil
}

func trimLineBreak(raw []byte) []byte { return bytes.TrimRight(raw, "\r\n") }

// visible says whether a text is visible ASCII without spaces, as tokens are.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
