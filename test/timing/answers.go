// Package timing judges how long something took in tests that share their processors with many others: by what is usual among
// several answers, and by a bound that only what waits for something else can miss.
package timing

import (
	"slices"
	"testing"
	"time"
)

// hung is what an answer may be late by on the busiest machine. Whatever takes longer waits for what does not come.
const hung = 5 * time.Second

// Answers is how long answers took, by what was asked and how soon it is to be answered.
type Answers map[Question][]time.Duration

// Question is what was asked.
type Question struct {
	What  string
	Limit time.Duration
}

// Time asks and notes how long the answer took.
func (a Answers) Time(what string, limit time.Duration, ask func() error) error {
	begin := time.Now()
	err := ask()
	a.Note(what, limit, time.Since(begin))
	return err
}

// Note notes how long an answer took.
func (a Answers) Note(what string, limit, took time.Duration) {
	key := Question{what, limit}
	a[key] = append(a[key], took)
}

// Judge holds the median of each question's answers to its limit, and the slowest to one that a busy machine does not miss.
func (a Answers) Judge(t testing.TB) {
	t.Helper()
	for q, took := range a {
		slices.Sort(took)
		median, slowest := took[len(took)/2], took[len(took)-1]
		if median > q.Limit || slowest > q.Limit+hung {
			t.Errorf("%s: answered after %s, the slowest of %d after %s, want %s", q.What, median, len(took), slowest, q.Limit)
		}
	}
}
