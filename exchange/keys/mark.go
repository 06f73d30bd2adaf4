package keys

import (
	"context"
	"errors"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// Remember puts a newer mark of the database onto the shelf. An older one of the same database is left alone: another replica has seen
// more meanwhile. One of another database never takes the place of what stands there; it is delegation.ErrRestored.
func Remember(ctx context.Context, shelf Shelf, mark delegation.Mark) error {
	_, err := shelf.Update(ctx, func(s State) (State, error) {
		if s.Mark != (delegation.Mark{}) {
			if s.Mark.Lineage == mark.Lineage && s.Mark.Ended >= mark.Ended {
				return s, errSettled
			}
			if err := mark.Check(s.Mark); err != nil {
				return s, err
			}
		}
		s.Mark = mark
		return s, nil
	})
	if errors.Is(err, errSettled) {
		return nil
	}
	return err
}
