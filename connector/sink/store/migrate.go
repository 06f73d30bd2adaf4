package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations
var migrations embed.FS

// migration returns a function that brings a database up to date.
func migration(kind goose.Dialect, folder string, options ...goose.ProviderOption) func(context.Context, *sql.DB) error {
	return func(ctx context.Context, db *sql.DB) error {
		files, err := fs.Sub(migrations, "migrations/"+folder)
		if err != nil {
			return fmt.Errorf("read migrations: %w", err)
		}
		p, err := goose.NewProvider(kind, db, files, append(options, goose.WithVerbose(false))...)
		if err != nil {
			return fmt.Errorf("read migrations: %w", err)
		}
		if _, err := p.Up(ctx); err != nil {
			return fmt.Errorf("bring the table up to date: %w", err)
		}
		return nil
	}
}
