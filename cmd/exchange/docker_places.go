package main

import (
	"net"
	"net/netip"
	"sync"
)

// How many connections a listener of the token endpoint has open at once, and how many of them from one container, which has an address
// of its own on the bridge. A job could take all of the exchange's file descriptors and memory otherwise, and the submitters' with them.
const (
	placesInAll        = 4096
	placesPerContainer = 512
)

// places is a listener that closes connections for which there is no place.
type places struct {
	net.Listener
	most, perAddress int // perAddress 0: one address may have all, where users share theirs

	mu   sync.Mutex
	open int
	from map[netip.Addr]int
}

func newPlaces(l net.Listener, most, perAddress int) *places {
	return &places{Listener: l, most: most, perAddress: perAddress, from: map[netip.Addr]int{}}
}

// Accept returns the next connection that there is a place for.
func (p *places) Accept() (net.Conn, error) {
	for {
		c, err := p.Listener.Accept()
		if err != nil {
			return nil, err
		}
		var from netip.Addr
		if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
			from = a.AddrPort().Addr().Unmap()
		}
		if p.take(from) {
			return &placed{Conn: c, leave: sync.OnceFunc(func() { p.leave(from) })}, nil
		}
		_ = c.Close()
	}
}

func (p *places) take(from netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open >= p.most || p.perAddress > 0 && p.from[from] >= p.perAddress {
		return false
	}
	p.open++
	p.from[from]++
	return true
}

func (p *places) leave(from netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
	if p.from[from]--; p.from[from] == 0 {
		delete(p.from, from)
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
