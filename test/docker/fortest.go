//go:build linux

package docker

import "testing"

// ForTest starts an Engine that has ProbeImage for a test, and stops it when that ends. It skips the test where there can be none.
func ForTest(t testing.TB, o Options) *Engine {
	t.Helper()
	if why := Unavailable(); why != "" {
		t.Skip(why)
	}
	e, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := e.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}
