package principal_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/lanyard-k8s/lanyard/client/principal"
)

// pass lets a bubble's clock go on.
func pass(d time.Duration) { <-time.After(d) }

func TestKeysAreKeptForMaxAge(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		control string
		want    time.Duration
	}{
		"as the exchange says":     {"public, max-age=300", 5 * time.Minute},
		"in other letters":         {"Max-Age=\"120\" , public", 2 * time.Minute},
		"not said":                 {"", 5 * time.Minute},
		"no number":                {"max-age=x", 5 * time.Minute},
		"for very long":            {"max-age=31536000", time.Hour},
		"for no time":              {"max-age=0", 30 * time.Second},
		"not to be kept, it says":  {"no-store", 30 * time.Second},
		"another directive's time": {"s-maxage=7", 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k := newSigner(t, "k", jose.ES256)
				p := publishes(t, k)
				p.control = tc.control
				g := p.guard(t)
				refuse(t, g, "first", k.token(t, nil), "")
				pass(tc.want - time.Millisecond)
				refuse(t, g, "before", k.token(t, nil), "")
				if n := p.count(); n != 1 {
					t.Errorf("asked %d times before", n)
				}
				pass(time.Millisecond)
				refuse(t, g, "after", k.token(t, nil), "")
				if n := p.count(); n != 2 {
					t.Errorf("asked %d times after", n)
				}
			})
		})
	}
}

func TestJ5AnUnknownKeyIsAskedForOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, next := newSigner(t, "k", jose.ES256), newSigner(t, "next", jose.ES256)
		p := publishes(t, k)
		g := p.guard(t)
		refuse(t, g, "first", k.token(t, nil), "")
		pass(time.Minute)
		p.set(t, k, next)
		refuse(t, g, "a new key", next.token(t, nil), "")
		for i := range 1000 {
			refuse(t, g, "a random key", newSigner(t, fmt.Sprint(i), jose.EdDSA).token(t, nil), principal.UnknownKey)
		}
		if n := p.count(); n != 2 {
			t.Errorf("asked %d times", n)
		}
		refuse(t, g, "the known key meanwhile", k.token(t, nil), "")
		pass(30 * time.Second)
		refuse(t, g, "a random key again", newSigner(t, "x", jose.ES256).token(t, nil), principal.UnknownKey)
		if n := p.count(); n != 3 {
			t.Errorf("asked %d times half a minute later", n)
		}
	})
}

func TestARemovedKeyCountsNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, next := newSigner(t, "k", jose.ES256), newSigner(t, "next", jose.ES256)
		p := publishes(t, k, next)
		g := p.guard(t)
		refuse(t, g, "before", k.token(t, nil), "")
		p.set(t, next)
		pass(5 * time.Minute)
		refuse(t, g, "after max-age", k.token(t, nil), principal.UnknownKey)
	})
}

func TestTheExchangeIsNotThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newSigner(t, "k", jose.ES256)
		p := publishes(t, k)
		g := p.guard(t)
		p.fail(true)
		for range 10 {
			refuse(t, g, "from the start", k.token(t, nil), principal.Unavailable)
		}
		if n := p.count(); n != 1 {
			t.Errorf("asked %d times at once", n)
		}
		p.fail(false)
		pass(5 * time.Second)
		refuse(t, g, "it comes", k.token(t, nil), "")
		p.fail(true)
		pass(5 * time.Minute)
		refuse(t, g, "for a while the keys count on", k.token(t, nil), "")
		pass(10*time.Minute - time.Second)
		refuse(t, g, "to the end of the grace", k.token(t, nil), "")
		pass(time.Second)
		refuse(t, g, "and then no more", k.token(t, nil), principal.Unavailable)
		p.fail(false)
		pass(5 * time.Second)
		refuse(t, g, "it is back", k.token(t, nil), "")
	})
}

func TestOneQuestionForManyCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newSigner(t, "k", jose.ES256)
		p := publishes(t, k)
		p.hold = make(chan struct{})
		g := p.guard(t)
		token := k.token(t, nil)
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i == 0 {
					cancel() // one that has gone breaks nothing off for the others
				}
				if _, err := g.Verify(ctx, token); err != nil && i != 0 {
					t.Errorf("%v", err)
				}
			})
		}
		synctest.Wait()
		close(p.hold)
		all.Wait()
		if n := p.count(); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}
