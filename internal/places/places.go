// Package places bounds the connections of a server: all of them, and those of each address, or of each user of a Unix socket, so that
// whoever opens as many as there are does not keep the others out.
package places

import (
	"net"
	"net/netip"
	"sync"
)

// Key is whose connection it is. The zero value is nobody known: such connections are counted in all alone.
type Key struct {
	addr  netip.Addr
	uid   uint32
	known bool
}

// Of is the key of a connection: the user who connected to a Unix socket, as the kernel names it, else the address that it comes from.
func Of(c net.Conn) Key {
	if uid, ok := User(c); ok {
		return OfUser(uid)
	}
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return OfAddress(a.AddrPort().Addr())
	}
	return Key{}
}

// OfUser is the key of a user of a Unix socket.
func OfUser(uid uint32) Key { return Key{uid: uid, known: true} }

// OfAddress is the key of an address; of none it is nobody's.
func OfAddress(addr netip.Addr) Key {
	addr = addr.Unmap().WithZone("")
	return Key{addr: addr, known: addr.IsValid()}
}

// Known says whether it is anybody's.
func (k Key) Known() bool { return k.known }

// User is the user of a Unix socket whose it is.
func (k Key) User() (uint32, bool) { return k.uid, k.known && !k.addr.IsValid() }

// Bounds are how many connections may be open at once.
type Bounds struct {
	// Total is all of them. It must be more than zero.
	Total int
	// PerKey is how many one key may have; 0 for all.
	PerKey int
	// Reserve is how many of the last places only keys with fewer than Newcomer connections get, so that a few keys that take all
	// they may have leave some for who comes after them.
	Reserve, Newcomer int
}

// Share is the bounds that listeners have where nothing else is said: a quarter for one key, since many callers may come by one address
// of a proxy or a gateway, and an eighth in reserve.
func Share(total int) Bounds { return Bounds{Total: total, PerKey: max(1, total/4)}.Reserved() }

// Reserved is the bounds with an eighth in reserve, of which a newcomer gets two or more.
func (b Bounds) Reserved() Bounds {
	b.Reserve, b.Newcomer = b.Total/8, max(2, b.Total/256)
	return b
}

// Places are the connections that are open. They may be shared by several listeners.
type Places struct {
	bounds  Bounds
	key     func(net.Conn) Key
	open    func(int)
	refused func()

	mu  sync.Mutex
	all int
	of  map[Key]int
}

// New makes places. open is told how many connections there are after each change, and refused of each that was closed; either may be
// nil.
func New(b Bounds, key func(net.Conn) Key, open func(int), refused func()) *Places {
	if open == nil {
		open = func(int) {}
	}
	if refused == nil {
		refused = func() {}
	}
	return &Places{bounds: b, key: key, open: open, refused: refused, of: map[Key]int{}}
}

// Take takes a place and returns how it is given back, which it may be more than once; nil if there is none.
func (p *Places) Take(k Key) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.of[k]
	switch b := p.bounds; {
	case p.all >= b.Total, k.known && b.PerKey > 0 && own >= b.PerKey:
		return nil
	case p.all >= b.Total-b.Reserve && (!k.known || own >= b.Newcomer):
		return nil
	}
	p.count(k, 1)
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.count(k, -1)
	})
}

// count changes the numbers. The caller holds the lock.
func (p *Places) count(k Key, by int) {
	p.all += by
	p.open(p.all)
	if p.of[k] += by; p.of[k] == 0 {
		delete(p.of, k)
	}
}

// Bound is a listener that closes the connections for which there is no place. Waiting instead, as netutil.LimitListener does, would
// leave callers in the backlog without an answer until their deadlines.
func (p *Places) Bound(l net.Listener) net.Listener { return &bounded{Listener: l, places: p} }

type bounded struct {
	net.Listener
	places *Places
}

// Accept returns the next connection that there is a place for.
func (l *bounded) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if leave := l.places.Take(l.places.key(c)); leave != nil {
			return &placed{Conn: c, leave: leave}, nil
		}
		l.places.refused()
		_ = c.Close()
	}
}

// placed is a connection that gives its place back.
type placed struct {
	net.Conn
	leave func()
}

// Close gives the place back and closes.
func (c *placed) Close() error {
	c.leave()
	return c.Conn.Close()
}

// under is the connection as the kernel gave it.
func under(c net.Conn) net.Conn {
	if p, ok := c.(*placed); ok {
		return p.Conn
	}
	return c
}
