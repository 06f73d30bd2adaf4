package places

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func from(addr string) Key { return Key{addr: netip.MustParseAddr(addr), known: true} }

// taken opens as many connections of a key as it gets.
func taken(p *Places, k Key) (leave []func()) {
	for {
		one := p.Take(k)
		if one == nil {
			return leave
		}
		leave = append(leave, one)
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	shown := 0
	p := New(Bounds{Total: 4, PerKey: 2}, Of, func(n int) { shown = n }, nil)
	a, b := from("10.0.0.1"), from("10.0.0.2")
	of := taken(p, a)
	if len(of) != 2 {
		t.Fatalf("one key has %d, want 2", len(of))
	}
	of = append(of, p.Take(b), p.Take(Key{}))
	if of[2] == nil || of[3] == nil || p.Take(from("10.0.0.3")) != nil || p.Take(Key{}) != nil {
		t.Fatal("there are four in all")
	}
	of[0]()
	of[0]() // once is enough
	if p.all != 3 || shown != 3 || p.of[a] != 1 {
		t.Errorf("open %d, shown %d, of the first %d", p.all, shown, p.of[a])
	}
	for _, leave := range of {
		leave()
	}
	if p.all != 0 || shown != 0 || len(p.of) != 0 {
		t.Errorf("open %d, shown %d, keys %v", p.all, shown, p.of)
	}
	if got := len(taken(New(Bounds{Total: 3}, Of, nil, nil), a)); got != 3 {
		t.Errorf("without a bound one key has %d, want all three", got)
	}
}

// TestTheNewcomerGetsIn after as many addresses as there are quarters have taken all they get.
func TestTheNewcomerGetsIn(t *testing.T) {
	t.Parallel()
	for _, total := range []int{16, 128, 1024, 10_000} {
		p := New(Share(total), Of, nil, nil)
		for _, greedy := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"} {
			if got := len(taken(p, from(greedy))); got > total/4 {
				t.Errorf("of %d, %s has %d", total, greedy, got)
			}
		}
		if taken(p, Key{}); p.all < total*7/8 {
			t.Errorf("of %d, %d are taken, want all but the reserve", total, p.all)
		}
		if got, want := len(taken(p, from("fd00::1"))), 2; got < want && total > 16 {
			t.Errorf("of %d, the newcomer has %d, want at least %d", total, got, want)
		}
	}
}

func TestOneAddressIsOneKey(t *testing.T) {
	t.Parallel()
	of := func(addr string) Key { return Of(fake{&net.TCPAddr{IP: net.ParseIP(addr), Port: 1}}) }
	if of("10.0.0.1") != of("::ffff:10.0.0.1") || of("10.0.0.1") == of("10.0.0.2") || of("fd00::1") == of("fd00::2") || !of("fd00::1").known {
		t.Error("addresses are not told apart as they should be")
	}
	if (Of(fake{&net.UDPAddr{}}) != Key{}) {
		t.Error("a connection without an address has a key")
	}
}

type fake struct{ remote net.Addr }

func (f fake) RemoteAddr() net.Addr           { return f.remote }
func (fake) Read([]byte) (int, error)         { return 0, io.EOF }
func (fake) Write([]byte) (int, error)        { return 0, io.EOF }
func (fake) Close() error                     { return nil }
func (fake) LocalAddr() net.Addr              { return nil }
func (fake) SetDeadline(time.Time) error      { return nil }
func (fake) SetReadDeadline(time.Time) error  { return nil }
func (fake) SetWriteDeadline(time.Time) error { return nil }

// TestBound: a connection over the bound is closed, and a place comes back with its connection's end.
func TestBound(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T) net.Listener{
		"an address": func(t *testing.T) net.Listener { return listen(t, "tcp", "127.0.0.1:0") },
		"a user":     func(t *testing.T) net.Listener { return listen(t, "unix", filepath.Join(short(t), "s")) },
	}
	for name, open := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t)
			var refused atomic.Int64
			p := New(Bounds{Total: 5, PerKey: 2}, Of, nil, func() { refused.Add(1) })
			if l.Addr().Network() == "unix" && runtime.GOOS != "linux" {
				t.Skip("SKIPPED: users are known on Linux only")
			}
			accepted := make(chan net.Conn, 8)
			go func() {
				for b := p.Bound(l); ; {
					c, err := b.Accept()
					if errors.Is(err, net.ErrClosed) {
						return
					}
					_, _ = c.Write([]byte("x"))
					accepted <- c
				}
			}()
			for range 2 {
				if !answered(t, l) {
					t.Fatal("two are not accepted")
				}
			}
			if answered(t, l) || refused.Load() != 1 {
				t.Errorf("a third is accepted, or not counted: %d", refused.Load())
			}
			c := <-accepted
			if uid, ok := User(c); ok != (l.Addr().Network() == "unix") || ok && uid != uint32(os.Geteuid()) {
				t.Errorf("user %d, %v", uid, ok)
			}
			_ = c.Close()
			if !answered(t, l) {
				t.Error("a place has not come back")
			}
		})
	}
}

func listen(t *testing.T, network, at string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// short is a directory whose path fits into a socket's address.
func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "places")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// answered connects, and says whether the other side says something. The connection is left open.
func answered(t *testing.T, l net.Listener) bool {
	t.Helper()
	c, err := net.DialTimeout(l.Addr().Network(), l.Addr().String(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	var one [1]byte
	_, err = io.ReadFull(c, one[:])
	return err == nil
}
