package socket

import (
	"net"
	"sync"
)

// Bounds is how many connections are open at once, of one user and in all.
type Bounds struct {
	PerUser int
	Total   int
}

const (
	// reserved is the part of all places that is kept for users with few: two users could have all of them otherwise.
	reserved = 8 // an eighth
	few      = 4 // a command has two at most
	// toldOfUser and toldInAll are how many connections there are besides that have no place and are told so. They take nobody's
	// place, and the rest is closed unread: words cost something too.
	toldOfUser = 8
	toldInAll  = 256
)

// connections accepts, asks the kernel who connects, and gives places. Only what has a place is counted: a user who knocks on and on
// takes nobody else's.
type connections struct {
	*net.UnixListener
	bounds  Bounds
	refused func()
	failed  func(error)

	mu     sync.Mutex
	placed tally
	told   tally
}

// tally counts connections, by user and in all.
type tally struct {
	of  map[uint32]int
	all int
}

func (t *tally) add(uid uint32) {
	if t.of == nil {
		t.of = map[uint32]int{}
	}
	t.of[uid]++
	t.all++
}

func (t *tally) remove(uid uint32) {
	t.all--
	if t.of[uid]--; t.of[uid] == 0 {
		delete(t.of, uid)
	}
}

// conn is a connection and whose it is. The user is asked for once, when the connection is accepted: the kernel's answer is of the
// moment of the connect, whatever becomes of the process or whomever it hands the connection to.
type conn struct {
	net.Conn
	uid   uint32
	over  bool
	leave func()
}

// Close gives the place up, once.
func (c *conn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// Accept returns the next connection whose user is known and that has a place, or is to be told that it has none.
func (l *connections) Accept() (net.Conn, error) {
	for {
		u, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, err := peerUID(u)
		if err != nil {
			l.failed(err)
			_ = u.Close()
			continue
		}
		in := l.enter(uid)
		if in == nil {
			l.refused()
			_ = u.Close()
			continue
		}
		return &conn{Conn: u, uid: uid, over: in == &l.told, leave: sync.OnceFunc(func() { l.leave(in, uid) })}, nil
	}
}

// enter gives a connection a place, or counts it among those that are told that there is none, or does neither.
func (l *connections) enter(uid uint32) (in *tally) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own, room := l.placed.of[uid], l.bounds.Total
	if own >= few {
		room -= max(1, room/reserved)
	}
	switch {
	case own < l.bounds.PerUser && l.placed.all < room:
		in = &l.placed
	case l.told.of[uid] < toldOfUser && l.told.all < toldInAll:
		in = &l.told
	default:
		return nil
	}
	in.add(uid)
	return in
}

func (l *connections) leave(in *tally, uid uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in.remove(uid)
}
