package socket

import "time"

// Places gives connections of users places, as a listener does.
type Places struct{ c connections }

// NewPlaces has nobody in it.
func NewPlaces(b Bounds) *Places { return &Places{c: connections{bounds: b}} }

// Enter says whether a user's next connection has a place, or is told that it has none; what leaves gives that up.
func (p *Places) Enter(uid uint32) (place, told bool, leave func()) {
	in := p.c.enter(uid)
	return in == &p.c.placed, in == &p.c.told, func() {
		if in != nil {
			p.c.leave(in, uid)
		}
	}
}

// Rates is how often users ask.
type Rates struct{ r *rates }

// NewRates knows nobody yet.
func NewRates(now func() time.Time) *Rates { return &Rates{newRates(now)} }

// Take says whether a user may ask now.
func (r *Rates) Take(uid uint32) bool { return r.r.take(uid) }

// Known is how many users are remembered.
func (r *Rates) Known() int { return len(r.r.of) }
