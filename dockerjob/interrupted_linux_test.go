package dockerjob_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/dockerjob"
	"github.com/lanyard-k8s/lanyard/test/docker"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// TestAnOutputIsInterrupted restarts the Engine under somebody who follows a job that goes on: he is told that there is more to come, and may
// follow it again to its end.
func TestAnOutputIsInterrupted(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*docker.Engine) error{"restarted": (*docker.Engine).Interrupt, "killed": (*docker.Engine).Kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := docker.ForTest(t, docker.Options{LiveRestore: true})
			r := newRig(t, e)
			j := r.submit(spec("long", "say", "hello", "wait"))
			follow := func() (*logBuffer, <-chan error) {
				out, ended := &logBuffer{}, make(chan error, 1)
				go func() { ended <- r.Logs(t.Context(), alice, j.ID, dockerjob.LogOptions{Follow: true}, out, out) }()
				r.eventually("its first line is read", func() bool { return out.String() == "hello\n" })
				return out, ended
			}
			_, first := follow()
			if err := away(e); err != nil {
				t.Fatal(err)
			}
			if err := timing.Next(t, 2*time.Minute, "the follower's end", first); !errors.Is(err, dockerjob.ErrInterrupted) {
				t.Errorf("the follower was told %v, want that he was interrupted", err)
			}
			if err := e.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.eventually("the backend is ready", func() bool { return r.Ready() == nil })
			again, second := follow()
			if _, err := r.Stop(t.Context(), alice, j.ID, time.Minute); err != nil {
				t.Fatal(err)
			}
			if err := timing.Next(t, 2*time.Minute, "the second follower's end", second); err != nil || again.String() != "hello\n" {
				t.Errorf("the second follower was told %v after %q", err, again)
			}
		})
	}
}
