package delegation

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Store keeps submissions and rows. What it acknowledged survives the process; what it did not may have happened or not.
// Everything may be called by several goroutines, and by several processes where the database allows it. Times come from the
// caller. It keeps no cache: a revocation counts from the next Get on.
type Store interface {
	Reader
	Writer
	Lister
	Keeper
	io.Closer
}

// Reader is what an exchange asks.
type Reader interface {
	// Get is a row and the submission that it stands on, which is zero if it has none; ErrNotFound if there is no row.
	Get(ctx context.Context, name string) (Standing, error)
}

// Standing is a row with its submission.
type Standing struct {
	Row        Row
	Submission Submission
}

// Writer is what the reconciler and the Docker backend write. All of it may be repeated.
type Writer interface {
	// Confirm adds a submission, or returns the one that stands; see Submission.Confirm.
	Confirm(ctx context.Context, s Submission) (Submission, error)
	// Observe notes how a submission's object was seen, and returns what stands then; see Submission.Observe. ErrNotFound if there is no
	// such submission.
	Observe(ctx context.Context, uid string, o Observation) (Submission, error)
	// Put adds, activates, renews or revokes a row, and returns what stands then; see Row.Put.
	Put(ctx context.Context, r Row) (Row, error)
	// End closes a submission and leaves its rows; see Submission.End.
	End(ctx context.Context, uid string, why Reason, at time.Time) (Submission, error)
	// Revoke ends rows and submissions, all or nothing.
	Revoke(ctx context.Context, r Revocation) (Ended, error)
}

// Revocation says what is to be revoked. Exactly one of the first three is set.
type Revocation struct {
	// Row is one row; its submission stays.
	Row string
	// Submission is a submission's UID: it is closed, and all its rows are revoked.
	Submission string
	// Submitter is a person: all submissions, all rows.
	Submitter string
	Reason    Reason
	At        time.Time
}

// Validate finds what no revocation may be.
func (r Revocation) Validate() error {
	set := 0
	for _, what := range []string{r.Row, r.Submission, r.Submitter} {
		if what != "" {
			set++
		}
	}
	if set != 1 || !r.Reason.valid() || r.At.IsZero() {
		return fmt.Errorf("%w: a revocation names one thing, a reason and a time", ErrInvalid)
	}
	return nil
}

// Lister is what reconciling and admins read, in the order of names, page by page.
type Lister interface {
	// Submission is one submission, or ErrNotFound.
	Submission(ctx context.Context, uid string) (Submission, error)
	// Submissions lists submissions by UID.
	Submissions(ctx context.Context, q SubmissionQuery) ([]Submission, error)
	// Rows lists rows by name.
	Rows(ctx context.Context, q RowQuery) ([]Row, error)
}

// MaxPage is the longest page of a list, and the length of one that asks for none.
const MaxPage = 1000

// SubmissionQuery selects submissions. What is zero selects everything.
type SubmissionQuery struct {
	State     SubmissionState
	Submitter string
	// After is the last UID of the page before; Limit the page's length, at most MaxPage.
	After string
	Limit int
}

// RowQuery selects rows. What is zero selects everything.
type RowQuery struct {
	Kind       Kind
	State      RowState
	Submission string
	// After is the last name of the page before; Limit the page's length, at most MaxPage.
	After string
	Limit int
}

// Keeper is what keeps a store small and honest.
type Keeper interface {
	// Collect deletes and erases one batch; it is called until nothing was left to do.
	Collect(ctx context.Context, c Collection) (Collected, error)
	// Guard is what was last saved. A database that has fallen behind what this process has seen of it is ErrRestored; see Mark.
	Guard(ctx context.Context) (Guard, error)
	// Advance saves the guard and returns what stands then; see Guard.Advance.
	Advance(ctx context.Context, g Guard) (Guard, error)
	// AcceptRestore makes a restored database usable: everything that is open or live is revoked as Restored, the epoch moves to
	// at, and the mark gets past the one last seen. It returns the new guard.
	AcceptRestore(ctx context.Context, seen Mark, at time.Time) (Guard, error)
}

// Ended counts what an ending changed.
type Ended struct {
	Submissions int
	Rows        int
}

// Collection says what has had its time. A zero time selects nothing.
type Collection struct {
	// Tombstones: rows that were revoked before this time are deleted, provided that nothing could bring them back: their
	// reason is lasting, or their submission is closed, or they have none.
	Tombstones time.Time
	// Submitters: the submitters of submissions that were closed before this time are erased, provided that no row of theirs is
	// left that is not revoked. A submission whose reason is lasting is deleted altogether once it has no rows.
	Submitters time.Time
	// Limit is the most of each kind in one batch, at most MaxPage.
	Limit int
}

// Collected counts what a batch did.
type Collected struct {
	Rows        int
	Submitters  int
	Submissions int
	// Undone are what the deleted rows were bound to whose reason was not lasting, a pod's UID or a container's id. What still runs of
	// these has no answer now but "not judged yet", until it is judged again.
	Undone []string
}

// None says whether there was nothing to do.
func (c Collected) None() bool { return c.Rows+c.Submitters+c.Submissions == 0 }

// Notifier is a Store that tells of changes. Both stores of this house do.
type Notifier interface {
	// Changes sends what changed, in this process or another, until ctx ends; then the channel is closed. It is never late but
	// may be incomplete: an empty Change means that some were missed, for a connection was lost or nobody read; whoever
	// waits for a row then looks for himself. The first value is always the empty Change.
	Changes(ctx context.Context) <-chan Change
}

// Change names a row that was added or changed, by Put or by a revocation.
type Change struct {
	Row string
}
