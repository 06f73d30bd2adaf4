package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// squatLine is what came to somebody who has taken the connector's place.
type squatLine struct {
	Bound       bool  `json:"bound,omitempty"`
	Connections int   `json:"connections"`
	Bytes       int64 `json:"bytes"`
}

// runSquat takes the connector's socket away from under its path and, with --listen, puts one of its own there. It counts what comes:
// connections, and the bytes that were sent over them. When it is told to stop it leaves its file behind, as a program does that dies.
func runSquat(ctx context.Context, args []string, p printer) error {
	s := flags("squat")
	socket := s.String("socket", "/var/run/nvsentinel/nvsentinel.sock", "the path to take")
	aside := s.String("aside", "", "where the connector's socket is moved to; empty removes it")
	listen := s.Bool("listen", true, "listen in its place")
	if err := parse(s, args); err != nil {
		return err
	}
	if err := take(*socket, *aside); err != nil {
		return fmt.Errorf("taking the socket's place: %w", err)
	}
	if !*listen {
		p.print(squatLine{})
		return nil
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: *socket, Net: "unix"})
	if err != nil {
		return fmt.Errorf("listening in its place: %w", err)
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(*socket, 0o666); err != nil {
		return err
	}
	p.print(squatLine{Bound: true})
	got := serveSquat(ctx, l, p)
	p.print(got)
	return nil
}

// take moves a socket out of the way.
func take(socket, aside string) error {
	if aside == "" {
		return os.Remove(socket)
	}
	return os.Rename(socket, aside)
}

// serveSquat reads what comes, and answers nothing, until the program is told to stop.
func serveSquat(ctx context.Context, l *net.UnixListener, p printer) squatLine {
	var mu sync.Mutex
	var got squatLine
	var reading sync.WaitGroup
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			reading.Wait()
			return got
		}
		if err != nil {
			pause(ctx, 10*time.Millisecond) // it may be short of files
			continue
		}
		reading.Go(func() {
			defer func() { _ = conn.Close() }()
			_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
			n, _ := io.Copy(io.Discard, conn) // what was read before an error counts, too
			mu.Lock()
			defer mu.Unlock()
			got.Connections++
			got.Bytes += n
			p.print(got)
		})
	}
}
