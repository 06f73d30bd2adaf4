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

// TestAnOutageIsNoVerdictOnAnUnknownKey: with fresh keys at hand an id that is not among them may be the key that the exchange has just
// begun to sign with. Whoever could not ask must not call its token refused.
func TestAnOutageIsNoVerdictOnAnUnknownKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, next, stranger := newSigner(t, "k", jose.ES256), newSigner(t, "next", jose.ES256), newSigner(t, "stranger", jose.ES256)
		p := publishes(t, k)
		g := p.guard(t)
		refuse(t, g, "first", k.token(t, nil), "")
		pass(30 * time.Second)
		refuse(t, g, "asked for and not published", stranger.token(t, nil), principal.UnknownKey)
		pass(30 * time.Second)
		p.set(t, k, next)
		p.fail(true)
		for i := range 100 {
			refuse(t, g, "the next key in the outage", next.token(t, nil), principal.Unavailable)
			refuse(t, g, "a random key in the outage", newSigner(t, fmt.Sprint(i), jose.EdDSA).token(t, nil), principal.Unavailable)
		}
		if n := p.count(); n != 3 {
			t.Errorf("asked %d times, want once for all that came in the outage", n)
		}
		refuse(t, g, "the known key meanwhile", k.token(t, nil), "")
		refuse(t, g, "what was asked for before stays refused", stranger.token(t, nil), principal.UnknownKey)
		pass(5*time.Second - time.Millisecond)
		refuse(t, g, "to the end of the pause", next.token(t, nil), principal.Unavailable)
		p.fail(false)
		pass(time.Millisecond)
		refuse(t, g, "after as long as Retry-After says", next.token(t, nil), "")
		refuse(t, g, "a random key after the outage", newSigner(t, "x", jose.EdDSA).token(t, nil), principal.UnknownKey)
	})
}

// TestWhatWasAskedForIsForgottenInTheEnd: ids are anybody's text, so not all of them are kept.
func TestWhatWasAskedForIsForgottenInTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newSigner(t, "k", jose.ES256)
		p := publishes(t, k)
		g := p.guard(t)
		random := make([]string, 65)
		for i := range random {
			random[i] = newSigner(t, fmt.Sprint(i), jose.EdDSA).token(t, map[string]string{"exp": "1e10"})
			refuse(t, g, "a random key", random[i], principal.UnknownKey)
			refuse(t, g, "the same again", random[i], principal.UnknownKey)
			pass(30 * time.Second)
		}
		p.fail(true)
		refuse(t, g, "the first of them", random[0], principal.Unavailable)
		for _, token := range random[1:] {
			refuse(t, g, "a later one", token, principal.UnknownKey)
		}
		pass(15 * time.Minute)
		refuse(t, g, "the last of them when the keys count no more", random[64], principal.Unavailable)
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
