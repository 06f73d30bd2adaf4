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

// connections accepts, asks the kernel who connects, and counts. A user over a bound is told so; beyond twice the bound the
// connection is closed without a word, since words cost something too.
type connections struct {
	*net.UnixListener
	bounds  Bounds
	refused func()

	mu     sync.Mutex
	open   map[uint32]int
	total  int
	failed func(error)
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

// Accept returns the next connection whose user is known.
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
		over, far := l.enter(uid)
		if far {
			l.refused()
			l.leave(uid)
			_ = u.Close()
			continue
		}
		return &conn{Conn: u, uid: uid, over: over, leave: sync.OnceFunc(func() { l.leave(uid) })}, nil
	}
}

// enter counts a connection, and says whether it is one too many.
func (l *connections) enter(uid uint32) (over, far bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[uid]++
	l.total++
	of, all := l.open[uid], l.total
	return of > l.bounds.PerUser || all > l.bounds.Total, of > 2*l.bounds.PerUser || all > 2*l.bounds.Total
}

func (l *connections) leave(uid uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	if l.open[uid]--; l.open[uid] == 0 {
		delete(l.open, uid)
	}
}
