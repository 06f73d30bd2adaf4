//go:build unix && !linux

package nodes

import "errors"

// peer is for Linux, where alone there are nodes.
func peer(string) (int, error) { return 0, errors.ErrUnsupported }
