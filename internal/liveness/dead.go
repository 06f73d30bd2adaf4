package liveness

import "time"

// graves remembers the UIDs of the dead, the oldest forgotten first: by age, and by number. It is not locked; its owner is.
type graves struct {
	keep  time.Duration
	most  int
	at    map[string]time.Time
	order []grave // in the order of death, from first on
	first int
}

// grave is one death as it was noted. A UID that was dug up and has died again has two; the map knows which one counts.
type grave struct {
	uid string
	at  time.Time
}

func newGraves(keep time.Duration, most int) graves {
	return graves{keep: keep, most: most, at: map[string]time.Time{}}
}

// has says whether a UID is known to be dead.
func (g *graves) has(uid string) bool {
	_, ok := g.at[uid]
	return ok
}

// bury remembers a UID and reports whether that is news.
func (g *graves) bury(uid string, now time.Time) bool {
	if g.has(uid) {
		return false
	}
	g.at[uid] = now
	g.order = append(g.order, grave{uid, now})
	for g.first < len(g.order) {
		oldest := g.order[g.first]
		if len(g.at) <= g.most && now.Sub(oldest.at) <= g.keep {
			break
		}
		g.forget(oldest)
	}
	g.compact()
	return true
}

// forget drops the oldest grave.
func (g *graves) forget(oldest grave) {
	if at, ok := g.at[oldest.uid]; ok && at.Equal(oldest.at) {
		delete(g.at, oldest.uid)
	}
	g.order[g.first] = grave{}
	g.first++
}

// dig takes a UID out again: the API server shows it alive, as after a label was taken off and put back.
func (g *graves) dig(uid string) { delete(g.at, uid) }

// compact moves the queue to the front of its array when half of it is empty, and drops what was dug up when that is most
// of it, so that neither grows without bound.
func (g *graves) compact() {
	if g.first > 32 && g.first*2 > len(g.order) {
		g.order = append(g.order[:0], g.order[g.first:]...)
		g.first = 0
	}
	if len(g.order)-g.first > 2*len(g.at)+64 {
		kept := make([]grave, 0, len(g.at))
		for _, one := range g.order[g.first:] {
			if at, ok := g.at[one.uid]; ok && at.Equal(one.at) {
				kept = append(kept, one)
			}
		}
		g.order, g.first = kept, 0
	}
}
