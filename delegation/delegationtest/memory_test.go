package delegationtest_test

import (
	"errors"
	"testing"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/delegationtest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	delegationtest.Run(t, func(*testing.T) delegation.Store { return &delegationtest.Memory{} })
}

func TestMemoryFailsWhenTold(t *testing.T) {
	t.Parallel()
	m := &delegationtest.Memory{Fail: func() error { return delegation.ErrReadOnly }}
	if _, err := m.Get(t.Context(), "x"); !errors.Is(err, delegation.ErrReadOnly) {
		t.Errorf("error is %v, want ErrReadOnly", err)
	}
}
