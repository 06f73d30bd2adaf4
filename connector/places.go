package connector

import (
	"net"
	"sync"
)

// places bounds the open connections of a server, over all its listeners, and those of each user of a Unix socket: whoever opens
// as many as there are must not keep the others out.
type places struct {
	most, perUser int64 // perUser 0: one user may have all
	gauge         interface{ Set(float64) }

	mu     sync.Mutex
	open   int64
	byUser map[int64]int64
}

func newPlaces(most, perUser int64, gauge interface{ Set(float64) }) *places {
	return &places{most: most, perUser: perUser, gauge: gauge, byUser: map[int64]int64{}}
}

// take takes a place for a connection of a user, -1 if that is not known, and returns how it is given back; nil if there is none.
func (p *places) take(user int64) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open >= p.most || user >= 0 && p.perUser > 0 && p.byUser[user] >= p.perUser {
		return nil
	}
	p.count(user, 1)
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.count(user, -1)
	})
}

// count changes the numbers. The caller holds the lock.
func (p *places) count(user, by int64) {
	p.open += by
	p.gauge.Set(float64(p.open))
	if p.byUser[user] += by; p.byUser[user] == 0 {
		delete(p.byUser, user)
	}
}

// capped is a listener that closes a connection for which there is no place. Waiting instead, as netutil.LimitListener
// does, would leave callers in the backlog without an answer until their deadlines.
type capped struct {
	net.Listener
	places  *places // shared by all listeners of a server
	refused func()
}

// Accept returns the next connection that there is a place for.
func (l *capped) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if leave := l.places.take(peerUser(c)); leave != nil {
			return &counted{Conn: c, leave: leave}, nil
		}
		l.refused()
		_ = c.Close()
	}
}

// counted is a connection that gives its place back.
type counted struct {
	net.Conn
	leave func()
}

// Close gives the place back and closes.
func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}
