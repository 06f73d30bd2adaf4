package liveness

import (
	"sync"
	"sync/atomic"
	"time"
)

// pulse knows whether a watch can be trusted: it has been synced, and neither closed nor silent for too long. It is one
// moment, until which the watch is trusted unless something is heard, so that asking costs one atomic load.
type pulse struct {
	until  atomic.Int64 // unix nanoseconds; 0 before the first sync
	last   atomic.Int64 // when something was last heard, in unix nanoseconds
	mu     sync.Mutex   // guards what follows, and writes to until
	synced bool
	open   bool
	// silence is how long nothing may be heard past a bookmark; silenceAtMost if zero.
	silence time.Duration
}

// patience is how long nothing may be heard.
func (p *pulse) patience() time.Duration {
	if p.silence > 0 {
		return p.silence
	}
	return silenceAtMost
}

// trusted says whether the watch can be trusted now.
func (p *pulse) trusted(now time.Time) bool { return now.UnixNano() <= p.until.Load() }

// age is how long nothing has been heard; zero if nothing ever was.
func (p *pulse) age(now time.Time) time.Duration {
	last := p.last.Load()
	if last == 0 {
		return 0
	}
	return max(0, now.Sub(time.Unix(0, last)))
}

// opened notes that the API server has accepted the watch.
func (p *pulse) opened(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = true
	p.beat(now)
}

// heard notes an event or a bookmark.
func (p *pulse) heard(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beat(now)
}

// beat extends the trust until the next bookmark is overdue.
func (p *pulse) beat(now time.Time) {
	p.last.Store(now.UnixNano())
	if p.synced && p.open {
		p.until.Store(now.Add(bookmarkEvery + p.patience()).UnixNano())
	}
}

// sync notes that the whole state has been read once.
func (p *pulse) sync(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.synced = true
	p.last.Store(now.UnixNano())
	// A list has just been read; if the watch that should follow does not open, trust ends as if it had closed.
	p.until.Store(now.Add(p.patience()).UnixNano())
	if p.open {
		p.beat(now)
	}
}

// closed notes that the watch has ended, or could not be opened. API servers end every watch after some minutes, so that
// alone is no reason to distrust it; not coming back within patience is.
func (p *pulse) closed(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = false
	if end := now.Add(p.patience()).UnixNano(); end < p.until.Load() {
		p.until.Store(end)
	}
}
