package delegationtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// likeTheModel does the same random things to the store and to Memory, and compares every answer and all that is left.
func likeTheModel(t *testing.T, s delegation.Store) {
	for round := range uint64(6) {
		random := rand.New(rand.NewPCG(round, 2))
		model := &Memory{}
		_, err := s.AcceptRestore(t.Context(), delegation.Mark{}, At(0))
		expect(t, "begin", err, nil)
		start, err := s.Guard(t.Context())
		expect(t, "guard", err, nil)
		for step := range 120 {
			do := draw(random, fmt.Sprintf("r%d-", round))
			wantText, wantErr := do.run(t.Context(), model)
			gotText, gotErr := do.run(t.Context(), s)
			if kindOf(wantErr) != kindOf(gotErr) || wantText != gotText {
				t.Fatalf("round %d, step %d, %s:\nwant %s, %v\ngot  %s, %v", round, step, do.name, wantText, wantErr, gotText, gotErr)
			}
		}
		want, got := dump(t.Context(), t, model), ofRound(dump(t.Context(), t, s), fmt.Sprintf("r%d-", round))
		got.Guard.Mark.Ended -= start.Mark.Ended
		want.Guard.Epoch, got.Guard.Epoch = At(0), At(0)
		same(t, fmt.Sprintf("after round %d", round), want, got)
	}
}

// ofRound leaves out what earlier rounds have left.
func ofRound(all everything, prefix string) everything {
	kept := everything{Guard: all.Guard}
	for _, s := range all.Submissions {
		if len(s.UID) > len(prefix) && s.UID[:len(prefix)] == prefix {
			kept.Submissions = append(kept.Submissions, s)
		}
	}
	for _, r := range all.Rows {
		if v := r.Bound.Value; len(v) > len(prefix) && v[:len(prefix)] == prefix {
			kept.Rows = append(kept.Rows, r)
		}
	}
	return kept
}

// action is one thing to do to a store; its answer is compared as text.
type action struct {
	name string
	run  func(context.Context, delegation.Store) (string, error)
}

// draw makes an action up; few names, so that they meet.
func draw(r *rand.Rand, prefix string) action {
	uid, pod := prefix+fmt.Sprint("j", r.IntN(3)), prefix+fmt.Sprint("p", r.IntN(6))
	at := At(1 + r.IntN(50))
	sub := Submission(uid)
	sub.Submitter = prefix + []string{"alice", "bob"}[r.IntN(2)]
	row := PodRow(uid, pod)
	row.ExpiresAt = At(60 + r.IntN(4))
	row.State = []delegation.RowState{delegation.Pending, delegation.Active, delegation.Active, delegation.Revoked}[r.IntN(4)]
	if row.State == delegation.Revoked {
		row.Reason, row.RevokedAt = delegation.PodRefused, at
	}
	why := delegation.Reasons()[r.IntN(len(delegation.Reasons()))]
	revocation := []delegation.Revocation{{Row: row.Name}, {Row: row.Name}, {Submission: uid}, {Submitter: sub.Submitter}}[r.IntN(4)]
	revocation.Reason, revocation.At = why, at
	switch n := r.IntN(100); {
	case n < 25:
		return answering("confirm "+uid, func(ctx context.Context, s delegation.Store) (any, error) { return s.Confirm(ctx, sub) })
	case n < 65:
		return answering("put "+pod, func(ctx context.Context, s delegation.Store) (any, error) { return s.Put(ctx, row) })
	case n < 75:
		return answering("get "+pod, func(ctx context.Context, s delegation.Store) (any, error) { return s.Get(ctx, row.Name) })
	case n < 80:
		return answering("end "+uid, func(ctx context.Context, s delegation.Store) (any, error) { return s.End(ctx, uid, why, at) })
	case n < 85:
		o := delegation.Observation{Generation: int64(r.IntN(4)), Since: At(r.IntN(4) - 1)}
		return answering(fmt.Sprintf("observe %s %+v", uid, o), func(ctx context.Context, s delegation.Store) (any, error) { return s.Observe(ctx, uid, o) })
	case n < 93:
		return answering(fmt.Sprintf("revoke %+v", revocation), func(ctx context.Context, s delegation.Store) (any, error) { return s.Revoke(ctx, revocation) })
	default:
		return answering("submission "+uid, func(ctx context.Context, s delegation.Store) (any, error) { return s.Submission(ctx, uid) })
	}
}

func answering(name string, f func(context.Context, delegation.Store) (any, error)) action {
	return action{name, func(ctx context.Context, s delegation.Store) (string, error) {
		v, err := f(ctx, s)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%+v", v), nil
	}}
}

func kindOf(err error) error {
	for _, kind := range []error{
		delegation.ErrNotFound, delegation.ErrInvalid, delegation.ErrConflict, delegation.ErrEnded, delegation.ErrUnavailable,
	} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return err
}

// concurrently lets many put, renew and revoke the same few rows. Whatever the order: a revocation that was acknowledged stands, the
// mark has counted every ending once, and every revision is one change.
func concurrently(t *testing.T, s delegation.Store) {
	const workers, steps, pods = 8, 25, 5
	confirm(t, s, "j1", "j2")
	var (
		group   sync.WaitGroup
		mu      sync.Mutex
		revoked = map[string]bool{}
		endings int64
	)
	for w := range workers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 7))
			for range steps {
				row := PodRow("j1", fmt.Sprint("p", random.IntN(pods)))
				row.ExpiresAt = At(60 + random.IntN(30))
				if random.IntN(4) > 0 {
					if _, err := s.Put(t.Context(), row); err != nil {
						t.Errorf("put: %v", err)
					}
					continue
				}
				ended, err := s.Revoke(t.Context(), delegation.Revocation{Row: row.Name, Reason: delegation.RowRevoked, At: At(1)})
				if err != nil && !errors.Is(err, delegation.ErrNotFound) {
					t.Errorf("revoke: %v", err)
				}
				mu.Lock()
				revoked[row.Name] = revoked[row.Name] || err == nil
				endings += int64(ended.Rows)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	all := dump(t.Context(), t, s)
	for _, r := range all.Rows {
		if (r.State == delegation.Revoked) != revoked[r.Name] {
			t.Errorf("row %s is %s, revoked is %v", r.Name, r.State, revoked[r.Name])
		}
	}
	same(t, "every row that was revoked ended once", int64(count(revoked)), endings)
	same(t, "the mark", endings, all.Guard.Mark.Ended)
}

func count(set map[string]bool) (n int) {
	for _, in := range set {
		if in {
			n++
		}
	}
	return n
}
