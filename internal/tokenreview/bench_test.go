package tokenreview

import (
	"testing"
	"time"

	"k8s.io/utils/clock"
)

// usual is a token of the usual length, about a thousand bytes, that is valid for an hour.
func usual() string {
	token := tokenFor(minted{exp: time.Now().Add(time.Hour).Unix(), mark: "0123456789012345678901234567890123456789"})
	for m := ""; len(token) < 1010; m += "0" {
		token = tokenFor(minted{exp: time.Now().Add(time.Hour).Unix(), mark: m})
	}
	return token
}

// Not parallel: other tests' allocations would be counted.
func TestAKnownTokenCostsNoAllocation(t *testing.T) {
	g := newRig(t, func(o *Options) { o.Clock = clock.RealClock{} })
	token, ctx, bucket := usual(), t.Context(), g.NewBucket()
	if _, err := g.Review(ctx, token, bucket); err != nil {
		t.Fatal(err)
	}
	allocs := testing.AllocsPerRun(1000, func() {
		if _, err := g.Review(ctx, token, bucket); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
}

func BenchmarkKnownToken(b *testing.B) {
	g := newRig(b, func(o *Options) { o.Clock = clock.RealClock{} })
	token, ctx := usual(), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Review(ctx, token, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGarbage(b *testing.B) {
	g := newRig(b, func(o *Options) { o.Clock = clock.RealClock{} })
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		_, _ = g.Review(ctx, "two.parts", nil)
	}
}

func BenchmarkMeantForOthers(b *testing.B) {
	g := newRig(b, func(o *Options) { o.Clock = clock.RealClock{} })
	token, ctx := tokenFor(minted{aud: []string{"api"}}), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		_, _ = g.Review(ctx, token, nil)
	}
}
