package keys

import (
	"context"
	"errors"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// Remember puts a newer mark of the database onto the shelf.
func Remember(ctx context.Context, shelf Shelf, mark delegation.Mark) error {
	_, err := shelf.Update(ctx, func(s State) (State, error) {
		if s.Mark == mark || (s.Mark.Lineage == mark.Lineage && s.Mark.Ended >= mark.Ended) {
			return s, errSettled
		}
		s.Mark = mark
		return s, nil
	})
	if errors.Is(err, errSettled) {
		return nil
	}
	return err
}
