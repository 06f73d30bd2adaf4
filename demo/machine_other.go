//go:build unix && !linux

package demo

import (
	"context"

	"github.com/lanyard-k8s/lanyard/test/docker"
)

// oneMachine says why there is nothing to see.
func oneMachine(_ context.Context, s *stage) error {
	s.say("# skipped: " + docker.Unavailable())
	return nil
}
