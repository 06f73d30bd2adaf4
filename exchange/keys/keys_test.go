package keys_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/keys"
	"github.com/lanyard-k8s/lanyard/internal/mint"
)

// shelves are the kinds of shelf; each is held to the same.
func shelves(t *testing.T) map[string]keys.Shelf {
	t.Helper()
	return map[string]keys.Shelf{"a Secret": secretShelf(t, empty()), "a directory": directoryShelf(t)}
}

func TestAShelfKeepsWhatItIsGiven(t *testing.T) {
	t.Parallel()
	for name, shelf := range shelves(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if s, err := shelf.Read(t.Context()); err != nil || len(s.Keys) != 0 || len(s.Ring.Entries) != 0 {
				t.Fatalf("an empty shelf: %v %v", s, err)
			}
			k := keeper(t, shelf, time.Now, nil)
			must(t, k.Refresh(t.Context()))
			first, err := k.Signer(time.Now())
			must(t, err)
			other := keeper(t, shelf, time.Now, nil)
			must(t, other.Refresh(t.Context()))
			second, err := other.Signer(time.Now())
			must(t, err)
			if first.KeyID() != second.KeyID() {
				t.Errorf("keys %s and %s", first.KeyID(), second.KeyID())
			}
			mark := delegation.Mark{Lineage: "a", Ended: 3}
			must(t, keys.Remember(t.Context(), shelf, mark))
			must(t, keys.Remember(t.Context(), shelf, delegation.Mark{Lineage: "a", Ended: 2})) // older: not taken
			if err := keys.Remember(t.Context(), shelf, delegation.Mark{Lineage: "b", Ended: 5}); !errors.Is(err, delegation.ErrRestored) {
				t.Errorf("the mark of another database: %v, want ErrRestored", err)
			}
			if s, err := shelf.Read(t.Context()); err != nil || s.Mark != mark || len(s.Keys) != 1 {
				t.Errorf("got %v %v", s.Mark, err)
			}
			boom := errors.New("boom")
			if _, err := shelf.Update(t.Context(), func(s keys.State) (keys.State, error) { s.Keys = nil; return s, boom }); !errors.Is(err, boom) {
				t.Errorf("got %v", err)
			}
			if s, _ := shelf.Read(t.Context()); len(s.Keys) != 1 {
				t.Error("a change that ended in an error was written")
			}
		})
	}
}

// TestOneOfManyRotates is J7.
func TestOneOfManyRotates(t *testing.T) {
	t.Parallel()
	for name, shelf := range shelves(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			counts := map[keys.Outcome]int{}
			told := func(o keys.Outcome) { mu.Lock(); defer mu.Unlock(); counts[o]++ }
			at := time.Now()
			replicas := make([]*keys.Keeper, 5)
			for i := range replicas {
				replicas[i] = keeper(t, shelf, func() time.Time { mu.Lock(); defer mu.Unlock(); return at }, told)
			}
			round := func() {
				var wg sync.WaitGroup
				for _, r := range replicas {
					wg.Go(func() { must(t, r.Refresh(t.Context())) })
				}
				wg.Wait()
			}
			round()
			mu.Lock()
			at = at.Add(24*time.Hour - 5*time.Minute)
			mu.Unlock()
			round()
			round()
			if counts[keys.Won] != 2 || counts[keys.Failed] != 0 {
				t.Errorf("outcomes %v", counts)
			}
			want, err := replicas[0].JWKS(at)
			must(t, err)
			for _, r := range replicas {
				got, err := r.JWKS(at)
				must(t, err)
				if !bytes.Equal(want.Body, got.Body) || bytes.Count(got.Body, []byte(`"kid"`)) != 2 {
					t.Errorf("sets differ, or hold no two keys: %s", got.Body)
				}
			}
		})
	}
}

// TestKeysComeAndGo: a key is forgotten, and its private part deleted, once nothing that it signed can live.
func TestKeysComeAndGo(t *testing.T) {
	t.Parallel()
	for name, shelf := range shelves(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := time.Now()
			k := keeper(t, shelf, func() time.Time { return at }, nil)
			most := 0
			for range 200 {
				must(t, k.Refresh(t.Context()))
				must(t, k.Check())
				s, err := shelf.Read(t.Context())
				must(t, err)
				most = max(most, len(s.Keys))
				at = at.Add(time.Hour)
			}
			if most > 3 {
				t.Errorf("%d keys at once", most)
			}
		})
	}
}

func TestAnUnreachableShelfKeepsServing(t *testing.T) {
	t.Parallel()
	api := empty()
	k := keeper(t, secretShelf(t, api), time.Now, nil)
	if err := k.Check(); !errors.Is(err, mint.ErrKeyMissing) {
		t.Errorf("before the first key: %v", err)
	}
	if _, err := k.JWKS(time.Now()); !errors.Is(err, mint.ErrKeyMissing) {
		t.Errorf("before the first key: %v", err)
	}
	must(t, k.Refresh(t.Context()))
	for name, fail := range map[string]error{
		"forbidden": apierrors.NewForbidden(resource(), "keys", nil), "down": errors.New("refused: " + strings.Repeat("secret", 3)), "gone": apierrors.NewNotFound(resource(), "keys"),
	} {
		api.fail = fail
		err := k.Refresh(t.Context())
		if !errors.Is(err, keys.ErrUnavailable) || strings.Contains(err.Error(), "secretsecret") {
			t.Errorf("%s: %v", name, err)
		}
		must(t, k.Check())
	}
}

// TestARevocationCountsWhereNothingCanBeWritten: a replica that may read the shelf and not write it neither signs with a key that was
// revoked nor lets its tokens through, although it cannot take the key out of the ring. What an empty ring says is no revocation.
func TestARevocationCountsWhereNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	api := empty()
	now := time.Now()
	k := keeper(t, secretShelf(t, api), func() time.Time { return now }, nil)
	must(t, k.Refresh(t.Context()))
	leaked, err := k.Signer(now)
	must(t, err)
	_, added, err := keys.Apply(t.Context(), secretShelf(t, api), mint.ES256, timing(), keys.Change{Now: true, Revoke: leaked.KeyID()}, now)
	must(t, err)
	api.failPut = apierrors.NewForbidden(resource(), "keys", nil)
	if err := k.Refresh(t.Context()); !errors.Is(err, keys.ErrUnavailable) || !strings.Contains(err.Error(), "needs get and update") {
		t.Errorf("the shelf cannot be written, and the error is %v", err)
	}
	if s, err := k.Signer(now); err != nil || s.KeyID() != added {
		t.Errorf("%v signs (%v), want %s: %s was revoked", s.KeyID(), err, added, leaked.KeyID())
	}
	if _, known := k.Lookup(leaked.KeyID(), now); known {
		t.Error("tokens of the revoked key are let through")
	}
	api.object.Data = nil
	if err := k.Refresh(t.Context()); !errors.Is(err, keys.ErrUnavailable) {
		t.Errorf("an empty shelf that cannot be written: %v", err)
	}
	must(t, k.Check())
}

func TestRunFollowsTheShelf(t *testing.T) {
	t.Parallel()
	shelf := directoryShelf(t)
	k, err := keys.NewKeeper(shelf, keys.Options{Alg: mint.ES256, Timing: timing(), Poll: time.Millisecond})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	_, added, err := keys.Apply(t.Context(), shelf, mint.ES256, timing(), keys.Change{Now: true}, time.Now())
	must(t, err)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); ; <-tick.C {
		if s, err := k.Signer(time.Now()); err == nil && s.KeyID() == added {
			break
		}
		if time.Since(start) > 10*time.Second {
			t.Fatal("the new key does not sign")
		}
	}
	cancel()
	must(t, <-done)
}

// TestAnUnknownKeyIsLookedFor: another replica signs with a key that was put in place by hand; it is known long before the next look at
// the shelf. Ids that are made up cost a look every two seconds at most.
func TestAnUnknownKeyIsLookedFor(t *testing.T) {
	t.Parallel()
	shelf := &counted{Shelf: directoryShelf(t)}
	k, err := keys.NewKeeper(shelf, keys.Options{Alg: mint.ES256, Timing: timing(), Poll: time.Hour})
	must(t, err)
	must(t, k.Refresh(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	begun := time.Now()
	go func() { done <- k.Run(ctx) }()
	wait := func(what string, so func() bool) {
		t.Helper()
		for !so() {
			if time.Since(begun) > time.Minute {
				t.Fatalf("never: %s", what)
			}
			<-time.After(time.Millisecond)
		}
	}
	wait("a first look", func() bool { return shelf.reads.Load() == 2 })
	_, added, err := keys.Apply(t.Context(), shelf, mint.ES256, timing(), keys.Change{Now: true}, time.Now())
	must(t, err)
	wait("the key is known", func() bool {
		k.Lookup("made-up", time.Now())
		_, known := k.Lookup(added, time.Now())
		return known
	})
	cancel()
	must(t, <-done)
	if most := 2 + int64(time.Since(begun)/(2*time.Second)) + 1; shelf.reads.Load() > most {
		t.Errorf("%d looks at the shelf in %v, want %d at most", shelf.reads.Load(), time.Since(begun), most)
	}
}

// counted counts how often a shelf is read.
type counted struct {
	keys.Shelf
	reads atomic.Int64
}

func (c *counted) Read(ctx context.Context) (keys.State, error) {
	defer c.reads.Add(1)
	return c.Shelf.Read(ctx)
}

// pemOf is a private key that no ring should have.
func pemOf(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// TestBadKeysAreFoundAtTheStart: missing, weak, of the wrong kind, damaged.
func TestBadKeysAreFoundAtTheStart(t *testing.T) {
	t.Parallel()
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	must(t, err)
	curve, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(t, err)
	now, err := time.Now().MarshalText()
	must(t, err)
	ring := fmt.Sprintf(`{"keys":[{"kid":"k","publishedAt":%q,"signsAt":%q}]}`, now, now)
	tests := map[string]struct {
		data map[string][]byte
		want error
	}{
		"a ring without its key": {map[string][]byte{"ring.json": []byte(ring)}, keys.ErrIncomplete},
		"a weak key":             {map[string][]byte{"ring.json": []byte(ring), "k.pem": pemOf(t, weak)}, mint.ErrKeyWeak},
		"another curve":          {map[string][]byte{"ring.json": []byte(ring), "k.pem": pemOf(t, curve)}, mint.ErrKeyKind},
		"no key":                 {map[string][]byte{"ring.json": []byte(ring), "k.pem": []byte("garbage")}, mint.ErrKeyUnreadable},
		"an empty file":          {map[string][]byte{"ring.json": []byte(ring), "k.pem": nil}, mint.ErrKeyMissing},
		"a ring that is none":    {map[string][]byte{"ring.json": []byte("garbage")}, keys.ErrDamaged},
		"a ring of more":         {map[string][]byte{"ring.json": []byte(`{"keys":[],"more":1}`)}, keys.ErrDamaged},
		"a mark that is none":    {map[string][]byte{"mark.json": []byte("[]")}, keys.ErrDamaged},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := empty()
			api.object.Data = tc.data
			dir := t.TempDir() + "/keys"
			d, err := keys.NewDirectory(dir)
			must(t, err)
			for file, content := range tc.data {
				must(t, os.WriteFile(filepath.Join(dir, file), content, 0o600))
			}
			for kind, shelf := range map[string]keys.Shelf{"a Secret": secretShelf(t, api), "a directory": d} {
				if err := keeper(t, shelf, time.Now, nil).Refresh(t.Context()); !errors.Is(err, tc.want) {
					t.Errorf("%s: got %v, want %v", kind, err, tc.want)
				} else if strings.Contains(err.Error(), "PRIVATE") || strings.Contains(err.Error(), "garbage") {
					t.Errorf("%s: the error quotes the key: %v", kind, err)
				}
			}
		})
	}
}

func TestAnUnsafeDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, dir string){
		"others may look in": func(t *testing.T, dir string) { must(t, os.Mkdir(dir, 0o755)) },
		"a symbolic link": func(t *testing.T, dir string) {
			must(t, os.Mkdir(dir+"2", 0o700))
			must(t, os.Symlink(dir+"2", dir))
		},
		"a file": func(t *testing.T, dir string) { must(t, os.WriteFile(dir, nil, 0o600)) },
		"a file that others may read": func(t *testing.T, dir string) {
			must(t, os.Mkdir(dir, 0o700))
			must(t, os.WriteFile(filepath.Join(dir, "ring.json"), []byte("{}"), 0o644))
		},
		"a key that is a link": func(t *testing.T, dir string) {
			must(t, os.Mkdir(dir, 0o700))
			must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "k.pem")))
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "keys")
			prepare(t, dir)
			d, err := keys.NewDirectory(dir)
			if err == nil {
				_, err = d.Read(t.Context())
			}
			if err == nil {
				t.Error("it is taken")
			}
		})
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	shelf := secretShelf(t, empty())
	now := time.Now()
	_, first, err := keys.Apply(t.Context(), shelf, mint.ES256, timing(), keys.Change{}, now)
	must(t, err)
	ring, second, err := keys.Apply(t.Context(), shelf, mint.ES256, timing(), keys.Change{}, now)
	must(t, err)
	if states := ring.States(now, timing()); states[first] != mint.Active || states[second] != mint.Next {
		t.Errorf("states %v", states)
	}
	if _, _, err := keys.Apply(t.Context(), shelf, mint.ES256, timing(), keys.Change{}, now); !errors.Is(err, mint.ErrPending) {
		t.Errorf("a third: %v", err)
	}
	if _, _, err := keys.Apply(t.Context(), shelf, mint.ES256, timing(), keys.Change{Revoke: "x"}, now); !errors.Is(err, mint.ErrNoKey) {
		t.Errorf("no such key: %v", err)
	}
	if _, _, err := keys.Apply(t.Context(), shelf, mint.ES256, timing(), keys.Change{Revoke: second}, now); err != nil {
		t.Errorf("the next one: %v", err)
	}
	if s, _ := shelf.Read(t.Context()); len(s.Keys) != 1 {
		t.Error("a revoked key's private part is still there")
	}
}

// TestOtherDataOfTheSecretStays: somebody's own label or key in the Secret is not ours to delete.
func TestOtherDataOfTheSecretStays(t *testing.T) {
	t.Parallel()
	api := empty()
	api.object.Data = map[string][]byte{"note": []byte("x")}
	must(t, keeper(t, secretShelf(t, api), time.Now, nil).Refresh(t.Context()))
	if string(api.object.Data["note"]) != "x" || len(api.object.Data) != 4 {
		t.Errorf("%d keys", len(api.object.Data))
	}
}
