package liveness

import (
	"strconv"
	"testing"
	"time"
)

func TestGravesAreBoundedByNumber(t *testing.T) {
	t.Parallel()
	g, now := newGraves(time.Hour, 100), time.Unix(1_800_000_000, 0)
	for i := range 10_000 {
		g.bury(strconv.Itoa(i), now)
	}
	if len(g.at) != 100 || len(g.order) > 300 {
		t.Errorf("%d graves in a queue of %d, want 100 in a short one", len(g.at), len(g.order))
	}
	if g.has("9899") || !g.has("9900") || !g.has("9999") {
		t.Error("not the oldest were forgotten")
	}
}

func TestGravesAreBoundedByAge(t *testing.T) {
	t.Parallel()
	g, now := newGraves(time.Hour, 100), time.Unix(1_800_000_000, 0)
	g.bury("old", now)
	g.bury("young", now.Add(time.Hour))
	if !g.has("old") {
		t.Error("forgotten before its time")
	}
	g.bury("younger", now.Add(time.Hour+1))
	if g.has("old") || !g.has("young") {
		t.Error("age does not decide who is forgotten")
	}
}

func TestGravesDugUp(t *testing.T) {
	t.Parallel()
	g, now := newGraves(time.Hour, 100), time.Unix(1_800_000_000, 0)
	for i := range 10_000 {
		at := now.Add(time.Duration(i) * time.Millisecond)
		if !g.bury("a", at) {
			t.Fatal("the death of one who was dug up is no news")
		}
		if g.bury("a", at) {
			t.Fatal("dying twice is news")
		}
		g.dig("a")
	}
	if len(g.at) != 0 || len(g.order) > 200 {
		t.Errorf("%d graves in a queue of %d, want none in a short one", len(g.at), len(g.order))
	}
	g.bury("a", now.Add(time.Hour))
	g.bury("b", now.Add(time.Hour+time.Minute))
	if !g.has("a") {
		t.Error("an earlier death decided when the later one is forgotten")
	}
}
