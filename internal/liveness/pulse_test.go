package liveness

import (
	"testing"
	"time"
)

func TestPulse(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	for name, tc := range map[string]struct {
		events func(*pulse)
		ask    time.Duration
		want   bool
	}{
		"nothing heard yet": {func(*pulse) {}, 0, false},
		"open but not synced": {func(p *pulse) {
			p.opened(at(0))
			p.heard(at(time.Second))
		}, time.Second, false},
		"synced and open, within a bookmark's time": {func(p *pulse) {
			p.opened(at(0))
			p.sync(at(0))
		}, 70 * time.Second, true},
		"silent for more than ten seconds past its bookmark": {func(p *pulse) {
			p.opened(at(0))
			p.sync(at(0))
		}, 70*time.Second + 1, false},
		"silent for longer than was asked for": {func(p *pulse) {
			p.silence = time.Second
			p.opened(at(0))
			p.sync(at(0))
		}, 61*time.Second + 1, false},
		"silent for as long as was asked for": {func(p *pulse) {
			p.silence = 30 * time.Second
			p.opened(at(0))
			p.sync(at(0))
		}, 90 * time.Second, true},
		"a bookmark gives another minute": {func(p *pulse) {
			p.opened(at(0))
			p.sync(at(0))
			p.heard(at(time.Minute))
		}, 130 * time.Second, true},
		"listed, and the watch opened after it": {func(p *pulse) {
			p.sync(at(0))
			p.opened(at(time.Second))
		}, 71 * time.Second, true},
		"listed, and no watch opened": {func(p *pulse) {
			p.sync(at(0))
		}, 10*time.Second + 1, false},
		"closed a moment ago, as every watch is": {func(p *pulse) {
			p.opened(at(0))
			p.sync(at(0))
			p.closed(at(5 * time.Second))
		}, 15 * time.Second, true},
		"closed and not opened again": {func(p *pulse) {
			p.opened(at(0))
			p.sync(at(0))
			p.closed(at(5 * time.Second))
		}, 15*time.Second + 1, false},
		"tries to open that fail earn no time": {func(p *pulse) {
			p.opened(at(0))
			p.sync(at(0))
			p.closed(at(5 * time.Second))
			p.closed(at(14 * time.Second))
		}, 15*time.Second + 1, false},
		"an event that was still under way when it closed earns none either": {func(p *pulse) {
			p.opened(at(0))
			p.sync(at(0))
			p.closed(at(5 * time.Second))
			p.heard(at(6 * time.Second))
		}, 15*time.Second + 1, false},
		"silent until it was long past trust, then closed": {func(p *pulse) {
			p.opened(at(0))
			p.sync(at(0))
			p.closed(at(100 * time.Second))
		}, 100 * time.Second, false},
		"opened again": {func(p *pulse) {
			p.opened(at(0))
			p.sync(at(0))
			p.closed(at(5 * time.Second))
			p.opened(at(40 * time.Second))
		}, 41 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p pulse
			tc.events(&p)
			if got := p.trusted(at(tc.ask)); got != tc.want {
				t.Errorf("trusted after %s = %t, want %t", tc.ask, got, tc.want)
			}
		})
	}
}

func TestPulseAge(t *testing.T) {
	t.Parallel()
	var p pulse
	now := time.Unix(1_800_000_000, 0)
	if got := p.age(now); got != 0 {
		t.Errorf("age before anything was heard = %s, want 0", got)
	}
	p.opened(now)
	if got := p.age(now.Add(3 * time.Second)); got != 3*time.Second {
		t.Errorf("age = %s, want 3s", got)
	}
}
