// Package tokenfile reads a token from the file that the kubelet, or whoever plays its part, keeps it in. Everybody who presents
// a token reads it here, the SDK too, so that all say the same of a file that holds none.
package tokenfile

import (
	"bytes"
	"errors"
	"io"
	"os"
)

// Most is the longest token, in bytes; neither the connector nor the exchange takes a longer one.
const Most = 8 << 10

// slack is what may stand around a token: line breaks, and spaces of an editor's.
const slack = 1 << 10

// Read reads a token; white space around it is not part of it. Errors say what is wrong with the file, and never what it holds.
// Tokens are replaced in place, so a caller reads again for each use.
func Read(path string) (string, error) {
	raw, err := read(path)
	if err != nil {
		var at *os.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		return "", &Error{Path: path, Err: err}
	}
	token := bytes.TrimSpace(raw)
	switch {
	case len(token) == 0:
		err = errors.New("is empty")
	case len(token) > Most:
		err = errors.New("is longer than any token")
	case !visible(token):
		err = errors.New("holds a space, a line break or a byte that is not ASCII within the token")
	default:
		return string(token), nil
	}
	return "", &Error{Path: path, Err: err}
}

// Error names the file and what is wrong with it.
type Error struct {
	Path string
	Err  error
}

// Error is one line.
func (e *Error) Error() string { return "token file " + e.Path + ": " + e.Err.Error() }

// Unwrap returns the cause, such as fs.ErrNotExist.
func (e *Error) Unwrap() error { return e.Err }

// read reads no more than a token and what may stand around it.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(f, Most+slack))
	return raw, errors.Join(err, f.Close())
}

// visible says whether a text is visible ASCII without spaces, as tokens are.
func visible(s []byte) bool {
	for _, c := range s {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}
