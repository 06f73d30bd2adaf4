//go:build unix

package redteam

import "context"

type journal []string

func (w *world) live(ctx context.Context, _ string) (journal, error) { return nil, nil }
