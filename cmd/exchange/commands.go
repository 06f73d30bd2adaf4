package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/keys"
	"github.com/lanyard-k8s/lanyard/exchange/settings"
)

func newMigrate(f *flags) *cobra.Command {
	var accept bool
	cmd := &cobra.Command{
		Use:   "migrate --config FILE",
		Short: "Make the database, or bring an older one up to date",
		Long: `migrate makes the tables that this version needs. With SQLite the exchange must be stopped meanwhile.

--accept-restore is for a database that was restored from a copy: it may have forgotten that something was revoked, so the
exchange refuses to start on it. Everything that is open is then revoked; jobs that run have to be submitted again.`,
		Example: "  exchange migrate --config exchange.yaml\n  exchange migrate --config exchange.yaml --accept-restore",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := settings.Load(f.config)
			if err != nil {
				return err
			}
			if err := migrateRecords(cmd.Context(), cfg.Store); err != nil {
				return err
			}
			if accept {
				return acceptRestore(cmd.Context(), f, cfg, cmd.OutOrStdout())
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "the database is up to date")
			return err
		},
	}
	cmd.Flags().BoolVar(&accept, "accept-restore", false, "accept a restored database: revoke everything that is open in it")
	return cmd
}

// acceptRestore makes a restored database usable, and remembers its new mark.
func acceptRestore(ctx context.Context, f *flags, cfg settings.Settings, out io.Writer) (err error) {
	shelf, err := shelfOf(f, cfg.Keys)
	if err != nil {
		return err
	}
	state, err := shelf.Read(ctx)
	if err != nil {
		return fmt.Errorf("read the mark that was last seen: %w", err)
	}
	store, err := openRecords(ctx, cfg.Store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	guard, err := store.AcceptRestore(ctx, state.Mark, time.Now())
	if err != nil {
		return fmt.Errorf("accept the restored database: %w", err)
	}
	if err := setMark(ctx, shelf, guard.Mark); err != nil {
		return fmt.Errorf("remember the database's mark: %w", err)
	}
	_, err = fmt.Fprintf(out, "the restored database is accepted: everything that was open in it is revoked, and nothing older than %s will be confirmed\n",
		guard.Epoch.Format(time.RFC3339))
	return err
}

// setMark puts a mark onto the shelf, whatever stood there.
func setMark(ctx context.Context, shelf keys.Shelf, mark delegation.Mark) error {
	_, err := shelf.Update(ctx, func(s keys.State) (keys.State, error) {
		s.Mark = mark
		return s, nil
	})
	return err
}

func newRotateKeys(f *flags) *cobra.Command {
	var c keys.Change
	cmd := &cobra.Command{
		Use:   "rotate-keys --config FILE",
		Short: "Put a new signing key in place, or take a key away",
		Long: `rotate-keys publishes a new key, which signs once every verifier can know it (twice keys.maxAgeSeconds later). The exchange does
so by itself every keys.rotateEverySeconds.

--now is for a key that may have leaked: the new key signs at once. --revoke takes a key out of what is published, at once; its
tokens are refused by whoever fetches the keys again, within keys.maxAgeSeconds. A key that signs can be revoked together
with --now only.`,
		Example: "  exchange rotate-keys --config exchange.yaml\n  exchange rotate-keys --config exchange.yaml --now --revoke OLD-KEY-ID",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := settings.Load(f.config)
			if err != nil {
				return err
			}
			shelf, err := shelfOf(f, cfg.Keys)
			if err != nil {
				return err
			}
			return rotate(cmd.Context(), shelf, cfg.Keys, c, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&c.Now, "now", false, "let the new key sign at once")
	cmd.Flags().StringVar(&c.Revoke, "revoke", "", "the id of a key to take out of what is published")
	return cmd
}

func rotate(ctx context.Context, shelf keys.Shelf, k settings.Keys, c keys.Change, out io.Writer) error {
	now := time.Now()
	ring, added, err := keys.Apply(ctx, shelf, k.Alg, k.Timing, c, now)
	if err != nil {
		return err
	}
	if added != "" {
		fmt.Fprintf(out, "new key %s\n", added)
	}
	if c.Revoke != "" {
		fmt.Fprintf(out, "revoked key %s\n", c.Revoke)
	}
	states := ring.States(now, k.Timing)
	for _, e := range ring.Entries {
		if _, err := fmt.Fprintf(out, "%-8s %s signs from %s\n", states[e.ID], e.ID, e.SignsAt.UTC().Format(time.RFC3339)); err != nil {
			return err
		}
	}
	return nil
}
