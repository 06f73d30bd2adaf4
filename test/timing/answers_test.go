package timing_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/test/timing"
)

// recorder takes complaints in place of the test.
type recorder struct {
	testing.TB

	complaints []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, _ ...any) { r.complaints = append(r.complaints, format) }

func TestAnswersAreJudgedByWhatIsUsual(t *testing.T) {
	t.Parallel()
	const limit = 100 * time.Millisecond
	for name, tc := range map[string]struct {
		took []time.Duration
		fine bool
	}{
		"all in time":            {took: []time.Duration{limit, 1, 1}, fine: true},
		"one is late":            {took: []time.Duration{1, 50 * limit, 1}, fine: true},
		"most are late":          {took: []time.Duration{1, limit + 1, limit + 1}},
		"one waits for too long": {took: []time.Duration{1, 1, time.Minute}},
		"the only one is late":   {took: []time.Duration{limit + 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, r := timing.Answers{}, &recorder{TB: t}
			for _, took := range tc.took {
				a.Note("who", limit, took)
			}
			a.Judge(r)
			if fine := len(r.complaints) == 0; fine != tc.fine {
				t.Errorf("complaints: %q", strings.Join(r.complaints, ", "))
			}
		})
	}
}

func TestEachQuestionIsJudgedByItself(t *testing.T) {
	t.Parallel()
	a, r := timing.Answers{}, &recorder{TB: t}
	a.Note("quick", time.Second, 1)
	a.Note("quick", time.Second, 1)
	if err := a.Time("slow", 0, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	a.Judge(r)
	if len(r.complaints) != 1 {
		t.Errorf("%d complaints, want one", len(r.complaints))
	}
}
