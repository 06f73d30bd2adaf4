package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/postgres"
	"github.com/lanyard-k8s/lanyard/delegation/sqlite"
	"github.com/lanyard-k8s/lanyard/exchange/keys"
	"github.com/lanyard-k8s/lanyard/exchange/settings"
	"github.com/lanyard-k8s/lanyard/exchange/waiting"
)

// records are the store; both drivers tell of changes.
type records interface {
	delegation.Store
	delegation.Notifier
	// Told tells of a mark that was seen elsewhere: an older database, or another, is then answered for with delegation.ErrRestored.
	Told(mark delegation.Mark) error
}

// storeEvery is how often the database is tried and its mark put onto the shelf, storeTimeout how long that may take.
const (
	storeEvery   = 10 * time.Second
	storeTimeout = 5 * time.Second
)

// connection reads the files that hold connection strings.
func connection(s settings.Store) (postgres.Options, error) {
	o := postgres.Options{MaxConns: int(s.Connections)}
	for file, into := range map[string]*string{s.ConnectionFile: &o.Conn, s.ListenFile: &o.Listen} {
		if file == "" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return o, fmt.Errorf("read the database's connection: %w", err)
		}
		*into = strings.TrimSpace(string(text))
	}
	return o, nil
}

func openRecords(ctx context.Context, s settings.Store) (records, error) {
	if s.Driver == settings.SQLite {
		return sqlite.Open(ctx, s.Directory)
	}
	o, err := connection(s)
	if err != nil {
		return nil, err
	}
	return postgres.Open(ctx, o)
}

func migrateRecords(ctx context.Context, s settings.Store) error {
	if s.Driver == settings.SQLite {
		return sqlite.Migrate(ctx, s.Directory)
	}
	o, err := connection(s)
	if err != nil {
		return err
	}
	return postgres.Migrate(ctx, o)
}

// openStore opens the database, unless it is older than the one last used: that one may have known of revocations that this one does not.
func (p *parts) openStore(ctx context.Context) error {
	store, err := openRecords(ctx, p.cfg.Store)
	if err != nil {
		return err
	}
	p.closer = append(p.closer, store.Close)
	p.store = store
	if err := p.compareMarks(ctx); err != nil {
		return err
	}
	if _, err := p.readMark(ctx); err != nil {
		return err
	}
	p.room = waiting.New(int(p.cfg.Limits.HeldPerRow), int(p.cfg.Limits.Held))
	p.storeUp.Store(true)
	p.task("database", p.watchStore)
	p.task("judgements", func(ctx context.Context) error { return p.room.Follow(ctx, p.store) })
	return nil
}

// compareMarks tells the store of the mark on the shelf. The shelf is read first and the database afterwards: another replica that ends
// something in between moves the database first, and so is not mistaken for somebody who has put it back.
func (p *parts) compareMarks(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	state, err := p.shelf.Read(ctx)
	if err != nil {
		return fmt.Errorf("read the mark that was last seen: %w", err)
	}
	if err := p.store.Told(state.Mark); err != nil {
		return fmt.Errorf("check the database: %w", err)
	}
	return nil
}

// readMark reads the database's mark, or finds that somebody has restored it.
func (p *parts) readMark(ctx context.Context) (delegation.Mark, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	guard, err := p.store.Guard(ctx)
	switch {
	case errors.Is(err, delegation.ErrRestored):
		return delegation.Mark{}, fmt.Errorf("check the database: %w", err)
	case err != nil:
		return delegation.Mark{}, fmt.Errorf("read the database's mark: %w", err)
	}
	return guard.Mark, nil
}

// watchStore tries the database now and then, and keeps the copy of its mark. It ends, and the program with it, where the database was
// restored meanwhile: from the moment that the store has found that out it answers nothing.
func (p *parts) watchStore(ctx context.Context) error {
	tick := time.NewTicker(storeEvery)
	defer tick.Stop()
	last := ""
	for {
		err := p.tryStore(ctx)
		if errors.Is(err, delegation.ErrRestored) {
			return err
		}
		text := ""
		if err != nil && ctx.Err() == nil {
			text = err.Error()
		}
		if text != "" && text != last {
			p.log.Error(nil, "the database or the keys' shelf does not answer", "cause", text)
		}
		last = text
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// tryStore compares the database with the mark on the shelf, and with what this process has seen where the shelf cannot be read.
func (p *parts) tryStore(ctx context.Context) error {
	unread := p.compareMarks(ctx)
	mark, err := p.readMark(ctx)
	p.storeUp.Store(err == nil)
	if err == nil {
		err = unread
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := keys.Remember(ctx, p.shelf, mark); err != nil {
		return fmt.Errorf("remember the database's mark: %w", err)
	}
	return nil
}

// rememberMark puts the mark onto the shelf after a revocation. Where that fails, the next try of the database does it.
func (p *parts) rememberMark(ctx context.Context) {
	if err := p.tryStore(ctx); err != nil {
		p.log.Error(err, "the database's mark is not on the keys' shelf yet; a copy restored now could forget a revocation")
	}
}
