package provenance

import (
	"slices"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// cast is one combination of everything small that decides about a pod with a Job with a CronJob.
type cast struct {
	podStamp, jobStamp, cronStamp string
	podAge, jobAge, cronAge       int
	jobState                      string // "", "gone", "finished", "deleting", "suspended"
	controlled, jobOwned, inOrder bool
	known                         string // "", "open", "closed"; "changed" and "unchanged" since it was seen, before the epoch
}

// plain says in one sentence each who the submitter is, "" for nobody.
func plain(c cast) string {
	person := func(who string) bool { return who == "alice" || who == submitterSA }
	old := func(age int) bool { return age < 10 }
	switch {
	case !c.inOrder || old(c.podAge):
		return "" // nobody vouches for the pod
	case !c.controlled && person(c.podStamp):
		return c.podStamp // a bare pod is its creator's
	case !c.controlled || c.podStamp != jobController || c.jobState != "" || c.known == "closed":
		return "" // its controller did not make it, or makes none any more
	case c.known == "changed", c.known != "" && c.jobStamp != "alice":
		return "" // nobody knows by whom
	case c.known != "":
		return "alice" // confirmed once is confirmed
	case old(c.jobAge):
		return ""
	case person(c.jobStamp):
		return c.jobStamp // whatever its owner references say
	case c.jobStamp != cronController || !c.jobOwned || old(c.cronAge) || !person(c.cronStamp):
		return ""
	default:
		return c.cronStamp
	}
}

func (c cast) judge() Verdict {
	cron := object(cronJob(), "nightly", c.cronStamp, nil)
	cron.Created = at(c.cronAge)
	work := object(job(), "train", c.jobStamp, nil)
	if c.jobOwned {
		work = object(job(), "train", c.jobStamp, &cron)
	}
	work.Created, work.Generation = at(c.jobAge), 3
	work.Finished, work.Deleting, work.Suspended = c.jobState == "finished", c.jobState == "deleting", c.jobState == "suspended"
	p := pod(c.podStamp, nil)
	if c.controlled {
		p = pod(c.podStamp, &work)
	}
	p.CreationTimestamp = at(c.podAge)
	l := live(work, cron)
	if c.jobState == "gone" {
		l[work.Reference] = nil
	}
	var known *Known
	if c.known != "" {
		seen := map[string]delegation.Observation{"open": {Generation: 2, Since: at(10).Time}, "changed": {Generation: 2, Since: at(9).Time}, "unchanged": {Generation: 3, Since: at(9).Time}}
		known = &Known{Submitter: "alice", Closed: c.known == "closed", Seen: seen[c.known]}
	}
	g := guards()
	g.InOrder = c.inOrder
	return rules().Pod(p, l, known, g, at(60))
}

// casts are all combinations.
func casts(yield func(cast)) {
	who := []string{"alice", submitterSA, jobController, cronController, "system:serviceaccount:ns:default", ""}
	bools, ages := []bool{false, true}, []int{9, 20}
	for _, podStamp := range who {
		for _, jobStamp := range who {
			for _, cronStamp := range who {
				for _, state := range []string{"", "gone", "finished", "deleting", "suspended"} {
					for bits := range 1 << 6 {
						bit := func(i int) int { return bits >> i & 1 }
						for _, known := range []string{"", "open", "closed", "changed", "unchanged"} {
							yield(cast{
								podStamp, jobStamp, cronStamp, ages[bit(0)], ages[bit(1)], ages[bit(2)], state,
								bools[bit(3)], bools[bit(4)], bools[bit(5)], known,
							})
						}
					}
				}
			}
		}
	}
}

func TestEveryCombinationAgreesWithThePlainRule(t *testing.T) {
	t.Parallel()
	count, confirmed := 0, 0
	casts(func(c cast) {
		count++
		want, got := plain(c), c.judge()
		if got.Submitter != want || (got.Outcome == Confirmed) != (want != "") {
			t.Fatalf("%+v: got %+v, want %q", c, got, want)
		}
		if got.Outcome != Confirmed && got.Reason == "" {
			t.Fatalf("%+v: no reason: %+v", c, got)
		}
		if want != "" {
			confirmed++
		}
	})
	if count < 100_000 || confirmed == 0 {
		t.Errorf("%d combinations, %d confirmed", count, confirmed)
	}
}

// FuzzNobodyButTheStampsUser draws chains of objects with arbitrary names: the submitter is always the stamp of the pod, or of an
// object that is reached from it by trusted controllers alone; it is never a name of the platform's that is not listed; and
// nothing older than the epoch takes part.
func FuzzNobodyButTheStampsUser(f *testing.F) {
	f.Add("alice", "bob", "carol", uint8(0xff), uint8(20), uint8(20), uint8(20))
	f.Add(jobController, cronController, "carol", uint8(0xff), uint8(20), uint8(20), uint8(20))
	f.Add(jobController, "alice", "SYSTEM:admin", uint8(0x7), uint8(20), uint8(9), uint8(20))
	f.Add(cronController, jobController, submitterSA, uint8(3), uint8(10), uint8(10), uint8(10))
	f.Fuzz(func(t *testing.T, podStamp, jobStamp, cronStamp string, bits, podAge, jobAge, cronAge uint8) {
		c := cast{
			podStamp: podStamp, jobStamp: jobStamp, cronStamp: cronStamp,
			podAge: int(podAge % 60), jobAge: int(jobAge % 60), cronAge: int(cronAge % 60),
			controlled: bits&1 != 0, jobOwned: bits&2 != 0, inOrder: bits&4 != 0,
			jobState: []string{"", "gone", "finished", "suspended"}[bits>>4&3],
		}
		got := c.judge()
		if got.Outcome != Confirmed {
			if got.Submitter != "" {
				t.Fatalf("a submitter without a confirmation: %+v", got)
			}
			return
		}
		used := map[string]int{podStamp: c.podAge}
		if c.controlled {
			used = map[string]int{jobStamp: min(c.podAge, c.jobAge)}
			if jobStamp == cronController {
				used = map[string]int{cronStamp: min(c.podAge, c.jobAge, c.cronAge)}
			}
		}
		age, ok := used[got.Submitter]
		lower := strings.ToLower(got.Submitter)
		platform := strings.HasPrefix(lower, "system:") || strings.HasPrefix(lower, "service:")
		switch {
		case !ok || got.Submitter == "":
			t.Fatalf("%+v became the submitter of %+v", got, c)
		case age < 10:
			t.Fatalf("something older than the epoch was confirmed: %+v of %+v", got, c)
		case platform && !slices.Contains(rules().Submitters, got.Submitter):
			t.Fatalf("%q became a submitter", got.Submitter)
		case c.controlled && podStamp != jobController:
			t.Fatalf("a forged owner reference was followed: %+v", c)
		}
	})
}
