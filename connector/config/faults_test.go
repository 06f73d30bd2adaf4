package config_test

import (
	"errors"
	"testing"

	"github.com/lanyard-k8s/lanyard/internal/config"
)

// faultsOf returns the paths of all faults, in order.
func faultsOf(t *testing.T, err error) []string {
	t.Helper()
	var faults config.Faults
	if err == nil {
		return nil
	}
	if !errors.As(err, &faults) {
		t.Fatalf("not a list of faults: %v", err)
	}
	var paths []string
	for _, f := range faults {
		paths = append(paths, f.Path)
	}
	return paths
}
