package tokenreview

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/internal/liveness"
)

// TestAPodThatNoWatchShowsIsLookedFor: reviews accept the token of a pod that has ended, and a watch that began after its end does not show it.
func TestAPodThatNoWatchShowsIsLookedFor(t *testing.T) {
	t.Parallel()
	away := errors.New("connection refused by " + tokenFor(minted{}))
	lenient := func(o *Options) { o.Lenient = true }
	for name, tc := range map[string]struct {
		state  liveness.State // what the watch says
		option func(*Options)
		found  liveness.State
		err    error
		want   Reason
		looks  int64
	}{
		"a watch shows it":                    {liveness.Alive, nil, liveness.Dead, nil, "", 0},
		"it runs":                             {liveness.Unknown, nil, liveness.Alive, nil, "", 1},
		"T5 it has ended":                     {liveness.Unknown, nil, liveness.Dead, nil, PodNotLive, 1},
		"there is no right to look":           {liveness.Unknown, nil, liveness.Unknown, nil, "", 1},
		"the API server cannot be asked":      {liveness.Unknown, nil, liveness.Unknown, away, ValidatorUnavailable, 1},
		"it has ended, and that is looked by": {liveness.Unknown, lenient, liveness.Dead, nil, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var looks atomic.Int64
			g := newRig(t, func(o *Options) {
				o.Look = func(ctx context.Context, namespace, name, uid string) (liveness.State, error) {
					looks.Add(1)
					if _, bounded := ctx.Deadline(); !bounded || namespace != "gpu" || name != "monitor-abc" || uid != "pod-1" {
						t.Errorf("looked for %s/%s %s, bounded %t", namespace, name, uid, bounded)
					}
					return tc.found, tc.err
				}
				if tc.option != nil {
					tc.option(o)
				}
			})
			g.pods.set("pod-1", tc.state)
			_, err := g.Review(t.Context(), tokenFor(minted{}), nil)
			if got := ReasonOf(err); got != tc.want || looks.Load() != tc.looks {
				t.Errorf("%q after %d looks (%v), want %q after %d", got, looks.Load(), err, tc.want, tc.looks)
			}
			if err != nil && strings.Contains(err.Error(), tokenFor(minted{})) {
				t.Error("the error holds the token")
			}
		})
	}
}

// TestALookInVainIsNotRemembered: what could not be asked is asked again, and a known verdict outlives an outage.
func TestALookInVainIsNotRemembered(t *testing.T) {
	t.Parallel()
	var fails atomic.Bool
	g := newRig(t, func(o *Options) {
		o.Look = func(context.Context, string, string, string) (liveness.State, error) {
			if fails.Load() {
				return liveness.Unknown, errors.New("timeout")
			}
			return liveness.Alive, nil
		}
	})
	g.pods.set("pod-1", liveness.Unknown)
	fails.Store(true)
	g.wants(t, tokenFor(minted{mark: "one"}), ValidatorUnavailable)
	fails.Store(false)
	g.wants(t, tokenFor(minted{mark: "one"}), "")
	fails.Store(true)
	g.clock.Step(11 * time.Second)
	g.wants(t, tokenFor(minted{mark: "one"}), "")
}
