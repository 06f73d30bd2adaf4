package mint_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/internal/mint"
)

func timing() mint.Timing {
	return mint.Timing{MaxAge: 5 * time.Minute, TTL: 5 * time.Minute, Leeway: time.Minute, Retention: time.Hour, Every: 24 * time.Hour}
}

func after(d time.Duration) time.Time { return now().Add(d) }

func TestARotation(t *testing.T) {
	t.Parallel()
	tm := timing()
	must := func(r mint.Ring, err error) mint.Ring {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := must(mint.Ring{}.Add("a", now(), tm))
	r = must(r.Add("b", after(time.Hour), tm))
	const turn = time.Hour + 10*time.Minute
	for _, tc := range []struct {
		at      time.Duration
		want    map[string]mint.State
		signing string
	}{
		{-1, map[string]mint.State{"a": mint.Next, "b": mint.Next}, ""},
		{0, map[string]mint.State{"a": mint.Active, "b": mint.Next}, "a"},
		{turn - 1, map[string]mint.State{"a": mint.Active, "b": mint.Next}, "a"},
		{turn, map[string]mint.State{"a": mint.Retired, "b": mint.Active}, "b"},
		{turn + time.Hour + time.Minute - 1, map[string]mint.State{"a": mint.Retired, "b": mint.Active}, "b"},
		{turn + time.Hour + time.Minute, map[string]mint.State{"a": mint.Gone, "b": mint.Active}, "b"},
	} {
		if diff := cmp.Diff(tc.want, r.States(after(tc.at), tm)); diff != "" {
			t.Errorf("at %v (-want +got):\n%s", tc.at, diff)
		}
		if got, ok := r.Signing(after(tc.at)); got != tc.signing || ok != (tc.signing != "") {
			t.Errorf("at %v %q signs, want %q", tc.at, got, tc.signing)
		}
	}
	kept, gone := r.Prune(after(4*time.Hour), tm)
	if diff := cmp.Diff([]string{"a"}, gone); diff != "" || len(kept.Entries) != 1 {
		t.Errorf("pruned to %+v, %v", kept, gone)
	}
}

// TestJ7OneWinner lets three replicas rotate at once: what the second reads after it lost the swap says that a key is there.
func TestJ7OneWinner(t *testing.T) {
	t.Parallel()
	r, err := mint.Ring{}.Add("a", now(), timing())
	if err != nil {
		t.Fatal(err)
	}
	stored := r
	for i := range 3 {
		next, err := stored.Add(fmt.Sprint("b", i), after(time.Hour), timing())
		if (i == 0) != (err == nil) || i > 0 && !errors.Is(err, mint.ErrPending) {
			t.Fatalf("replica %d: %v", i, err)
		}
		if err == nil {
			stored = next
		}
	}
	if diff := cmp.Diff([]string{"a", "b0"}, stored.Published(after(time.Hour), timing())); diff != "" {
		t.Errorf("published (-want +got):\n%s", diff)
	}
	if len(r.Entries) != 1 {
		t.Error("the ring that was read has changed")
	}
}

func TestJ11AnEmergency(t *testing.T) {
	t.Parallel()
	tm := timing()
	r, err := mint.Ring{}.Add("stolen", now(), tm)
	if err != nil {
		t.Fatal(err)
	}
	if r, err = r.Add("waiting", after(time.Hour), tm); err != nil {
		t.Fatal(err)
	}
	at := after(time.Hour + time.Minute)
	if _, err := r.Revoke("stolen", at); !errors.Is(err, mint.ErrSigning) {
		t.Errorf("revoking what signs: error is %v, want ErrSigning", err)
	}
	if r, err = r.Replace("new", at); err != nil {
		t.Fatal(err)
	}
	if r, err = r.Revoke("stolen", at); err != nil {
		t.Fatal(err)
	}
	if got, _ := r.Signing(at); got != "new" {
		t.Errorf("%q signs", got)
	}
	if diff := cmp.Diff([]string{"new", "waiting"}, r.Published(at, tm)); diff != "" {
		t.Errorf("published (-want +got):\n%s", diff)
	}
	if got, _ := r.Signing(after(2 * time.Hour)); got != "waiting" {
		t.Errorf("then %q signs", got)
	}
	again, err := r.Revoke("stolen", after(2*time.Hour))
	if diff := cmp.Diff(r, again); diff != "" || err != nil {
		t.Errorf("revoked twice: %v\n%s", err, diff)
	}
	for what, change := range map[string]func() (mint.Ring, error){
		"revoke a stranger": func() (mint.Ring, error) { return r.Revoke("x", at) },
		"add it twice":      func() (mint.Ring, error) { return r.Replace("new", at) },
		"add without id":    func() (mint.Ring, error) { return r.Replace("", at) },
	} {
		if _, err := change(); !errors.Is(err, mint.ErrNoKey) {
			t.Errorf("%s: error is %v, want ErrNoKey", what, err)
		}
	}
}

func TestJ6TimingIsValidated(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*mint.Timing)
		says   string
	}{
		"as it is":                    {func(*mint.Timing) {}, ""},
		"never by itself":             {func(tm *mint.Timing) { tm.Every = 0 }, ""},
		"retention = TTL":             {func(tm *mint.Timing) { tm.Retention = tm.TTL }, ""},
		"retention < TTL":             {func(tm *mint.Timing) { tm.Retention = tm.TTL - 1 }, "retention"},
		"no retention":                {func(tm *mint.Timing) { tm.Retention = 0 }, "retention"},
		"rotation before it is known": {func(tm *mint.Timing) { tm.Every = 10 * time.Minute }, "rotated"},
		"no max-age":                  {func(tm *mint.Timing) { tm.MaxAge = 0 }, "max-age"},
		"no life":                     {func(tm *mint.Timing) { tm.TTL = 0 }, "life"},
		"nothing at all":              {func(tm *mint.Timing) { *tm = mint.Timing{} }, "max-age"},
	} {
		tm := timing()
		tc.change(&tm)
		if err := tm.Validate(); (err == nil) != (tc.says == "") || !strings.Contains(fmt.Sprint(err), tc.says) && tc.says != "" {
			t.Errorf("%s: error is %v, want it to say %q", name, err, tc.says)
		}
	}
}

// issued is a token as far as rotation matters.
type issued struct {
	key     string
	expires time.Time
}

// view is what a verifier has fetched, and when.
type view struct {
	keys []string
	at   time.Time
}

// TestJ4RotationFailsNoVerification runs weeks of rotations, by the clock and by hand, on two replicas of which one learns of a changed ring
// up to a max-age late, and three verifiers that fetch only every max-age. Every token verifies at every verifier until it expires.
func TestJ4RotationFailsNoVerification(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 4))
		tm := timing()
		tm.Retention = tm.TTL + time.Duration(random.IntN(3))*time.Minute // the least there can be
		tm.Every = time.Duration(15+random.IntN(120)) * time.Minute
		ring, err := mint.Ring{}.Add("k0", now(), tm)
		if err != nil {
			t.Fatal(err)
		}
		late, lateSince := ring, now()
		var alive []issued
		views := make([]view, 3)
		for step := range 2000 {
			at := now().Add(time.Duration(step) * 30 * time.Second)
			if ring.Due(at, tm) || random.IntN(40) == 0 {
				if next, err := ring.Add(fmt.Sprint("k", step), at, tm); err == nil {
					late, lateSince = ring, at
					ring, _ = next.Prune(at, tm)
				}
			}
			if at.Sub(lateSince) >= tm.MaxAge {
				late = ring
			}
			alive = sign2(t, alive, at, tm, ring, late)
			for i := range views {
				if views[i].keys == nil || at.Sub(views[i].at) >= tm.MaxAge {
					served := []mint.Ring{ring, late}[random.IntN(2)]
					views[i] = view{served.Published(at, tm), at}
				}
				for _, token := range alive {
					if !slices.Contains(views[i].keys, token.key) {
						t.Fatalf("seed %d, step %d: a verifier that fetched at %v does not know the key %s of a token that expires at %v", seed, step, views[i].at, token.key, token.expires)
					}
				}
			}
		}
	}
}

// sign2 lets both replicas sign, and forgets what has expired.
func sign2(t *testing.T, alive []issued, at time.Time, tm mint.Timing, rings ...mint.Ring) []issued {
	t.Helper()
	for _, r := range rings {
		id, ok := r.Signing(at)
		if !ok {
			t.Fatalf("nothing signs at %v: %+v", at, r)
		}
		alive = append(alive, issued{id, at.Add(tm.TTL)})
	}
	return slices.DeleteFunc(alive, func(i issued) bool { return !at.Before(i.expires.Add(tm.Leeway)) })
}

// TestRingInvariants does random things to a ring and states what holds after each.
func TestRingInvariants(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random, tm := rand.New(rand.NewPCG(seed, 9)), timing()
		ring, at, revoked := mint.Ring{}, now(), map[string]bool{}
		for step := range 60 {
			at = at.Add(time.Duration(random.IntN(30)) * time.Minute)
			id := fmt.Sprint("k", step)
			var next mint.Ring
			var err error
			switch random.IntN(6) {
			case 0, 1:
				next, err = ring.Add(id, at, tm)
			case 2:
				next, err = ring.Replace(id, at)
			case 3, 4:
				id = fmt.Sprint("k", random.IntN(step+1))
				next, err = ring.Revoke(id, at)
				revoked[id] = revoked[id] || err == nil
			default:
				next, _ = ring.Prune(at, tm)
			}
			if err != nil {
				continue
			}
			ring = next
			checkRing(t, ring, at, tm, revoked)
		}
	}
}

func checkRing(t *testing.T, r mint.Ring, at time.Time, tm mint.Timing, revoked map[string]bool) {
	t.Helper()
	published := r.Published(at, tm)
	counts := map[mint.State]int{}
	for id, state := range r.States(at, tm) {
		counts[state]++
		if revoked[id] && (state != mint.Gone || slices.Contains(published, id)) {
			t.Fatalf("the revoked key %s is %s", id, state)
		}
		if (state != mint.Gone) != slices.Contains(published, id) {
			t.Fatalf("the key %s is %s, published is %v", id, state, published)
		}
	}
	signing, ok := r.Signing(at)
	switch {
	case counts[mint.Active] > 1 || counts[mint.Next] > 1:
		t.Fatalf("%d keys sign and %d wait: %+v", counts[mint.Active], counts[mint.Next], r)
	case ok != (counts[mint.Active] == 1) || ok && !slices.Contains(published, signing):
		t.Fatalf("%q signs, published are %v", signing, published)
	case !ok && len(published) > 0:
		t.Fatalf("keys are published and none signs: %+v", r)
	}
}

func TestASet(t *testing.T) {
	t.Parallel()
	a, b := generate(t, mint.ES256), generate(t, mint.EdDSA)
	r, err := mint.Ring{}.Add(a.ID(), now(), timing())
	if err != nil {
		t.Fatal(err)
	}
	if r, err = r.Add(b.ID(), now(), timing()); err != nil {
		t.Fatal(err)
	}
	if _, err := mint.NewSet(r, timing(), []mint.Key{a}, now()); !errors.Is(err, mint.ErrKeyMissing) {
		t.Errorf("without a key: error is %v, want ErrKeyMissing", err)
	}
	if _, err := mint.NewSet(r, mint.Timing{}, []mint.Key{a, b}, now()); err == nil || !strings.Contains(err.Error(), "max-age and a token's life must be given") {
		t.Errorf("a set without timing: %v", err)
	}
	s, err := mint.NewSet(r, timing(), []mint.Key{a, b}, now())
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[time.Duration]mint.Key{0: a, 9 * time.Minute: a, 10 * time.Minute: b, time.Hour: b} {
		signer, err := s.Signer(after(at))
		if err != nil || signer.KeyID() != want.ID() {
			t.Errorf("at %v: %v, %v", at, signer, err)
		}
	}
	if got := len(s.Published(now())); got != 2 {
		t.Errorf("%d keys published", got)
	}
	if _, ok := s.Lookup(a.ID(), after(30*time.Minute)); !ok {
		t.Error("the retired key is not found")
	}
	if _, ok := s.Lookup(a.ID(), after(2*time.Hour)); ok {
		t.Error("a key that is gone is found")
	}
	if _, err := s.Signer(now().Add(-time.Hour)); !errors.Is(err, mint.ErrKeyMissing) {
		t.Errorf("before the first key: error is %v, want ErrKeyMissing", err)
	}
}
