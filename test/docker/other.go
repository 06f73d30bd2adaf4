//go:build !linux

package docker

// Unavailable says why no Engine can be started here, or nothing.
func Unavailable() string { return "no Docker Engine to test on: this is not Linux" }
