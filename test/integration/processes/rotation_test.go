//go:build linux

package processes

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/test/cluster/exchange"
)

// verifier is a resource server's view of one replica's keys, with nothing of this project's code: it keeps a set for exactly as
// long as its answer says, and fetches no other for a key that it does not know.
type verifier struct {
	client *http.Client
	url    string

	mu      sync.Mutex
	keys    map[string]*ecdsa.PublicKey
	until   time.Time
	fetched int
}

// fetch fetches the set unless the last one may still be kept.
func (v *verifier) fetch(ctx context.Context) error {
	if time.Now().Before(v.until) {
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.url, nil)
	if err != nil {
		return err
	}
	asked := time.Now()
	resp, err := v.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the set: %d, %w", resp.StatusCode, err)
	}
	_, age, found := strings.Cut(resp.Header.Get("Cache-Control"), "max-age=")
	seconds, err := strconv.Atoi(age)
	if !found || err != nil {
		return fmt.Errorf("Cache-Control is %q", resp.Header.Get("Cache-Control"))
	}
	var set struct {
		Keys []struct{ Kid, Kty, Crv, X, Y string }
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return err
	}
	keys := map[string]*ecdsa.PublicKey{}
	for _, k := range set.Keys {
		x, errX := base64.RawURLEncoding.DecodeString(k.X)
		y, errY := base64.RawURLEncoding.DecodeString(k.Y)
		key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, x, y))
		if err := errors.Join(errX, errY, err); err != nil {
			return err
		}
		keys[k.Kid] = key
	}
	v.keys, v.until = keys, asked.Add(time.Duration(seconds)*time.Second)
	v.fetched++
	return nil
}

// verify says what is wrong with a token, and its key and end.
func (v *verifier) verify(ctx context.Context, token string) (kid string, exp time.Time, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.fetch(ctx); err != nil {
		return "", exp, err
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", exp, errors.New("no three parts")
	}
	var header struct{ Alg, Kid, Typ string }
	var claims struct {
		Exp int64
		Sub string
	}
	for i, into := range []any{&header, &claims} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err == nil {
			err = json.Unmarshal(raw, into)
		}
		if err != nil {
			return "", exp, err
		}
	}
	key := v.keys[header.Kid]
	if key == nil || header.Alg != "ES256" || header.Typ != "at+jwt" || claims.Sub != "alice" {
		return header.Kid, exp, fmt.Errorf("no key for %+v of %q", header, claims.Sub)
	}
	sig, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || len(sig) != 64 {
		return header.Kid, exp, errors.New("no signature")
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if !ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])) {
		return header.Kid, exp, errors.New("the signature is wrong")
	}
	return header.Kid, time.Unix(claims.Exp, 0), nil
}

// rotations is how often a key takes the place of another; short are times as brief as a busy machine can keep: a key is
// published for as long as anybody keeps a key set, and twice that, before it signs. Tokens live as briefly as they can.
const (
	rotations = 3
	every     = 8 * time.Second
	short     = "tokenSeconds: 30\nkeys: {secret: " + release + "/" + keySecret + ", maxAgeSeconds: 2, retentionSeconds: 30, rotateEverySeconds: 8}"
)

// issued is a token that is verified again and again until it ends.
type issued struct {
	token string
	exp   time.Time
}

// load asks a replica for tokens without a pause, verifies each at once by every replica's keys, and keeps some.
func load(ctx context.Context, t *testing.T, p *exchange.Program, subject string, verifiers []*verifier, kept chan<- issued) (made int) {
	next := time.Now()
	for ctx.Err() == nil {
		a := ask(ctx, p, subject)
		if a.status != http.StatusOK {
			if ctx.Err() == nil {
				t.Errorf("%s: %d %v", p.Name(), a.status, a.body)
			}
			return made
		}
		made++
		token := a.text("access_token")
		var exp time.Time
		for _, v := range verifiers {
			kid, end, err := v.verify(context.WithoutCancel(ctx), token)
			if err != nil {
				t.Errorf("a token of %s, with the keys of %s, key %s: %v", p.Name(), v.url, kid, err)
			}
			exp = end
		}
		if time.Now().After(next) {
			next = time.Now().Add(200 * time.Millisecond)
			kept <- issued{token, exp}
		}
	}
	return made
}

// TestRotationsUnderLoad has three replicas rotate three times by themselves while tokens are made, and holds each token to every
// replica's keys until it ends: not one verification fails, and each new key is one replica's alone.
func TestRotationsUnderLoad(t *testing.T) {
	w := withPostgres(t)
	database := w.databaseThatKnows(t)
	w.emptied(t)
	config := w.onPostgres(t, database, short)
	h := w.house(t)
	begun := time.Now()
	replicas := w.three(t, config)
	subject := h.subject(h.settled(replicas[0]))
	var verifiers []*verifier
	for _, p := range replicas {
		verifiers = append(verifiers, &verifier{client: p.Client, url: p.URL + "/apis/auth/jwks"})
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	kept := make(chan issued, 1<<12)
	var all sync.WaitGroup
	made := make([]int, len(replicas))
	for i, p := range replicas {
		all.Go(func() { made[i] = load(ctx, t, p, subject, verifiers, kept) })
	}
	signed := map[string]bool{}
	var live []issued
	verified := 0
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(5 * time.Minute); len(live) > 0 || len(signed) <= rotations; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%d keys have signed in five minutes", len(signed))
		}
		if len(signed) > rotations && ctx.Err() == nil { // what was made is verified to its end
			cancel()
			all.Wait()
		}
		for len(kept) > 0 {
			live = append(live, <-kept)
		}
		for _, one := range live {
			for _, v := range verifiers {
				kid, _, err := v.verify(t.Context(), one.token)
				if err != nil && time.Now().Before(one.exp) {
					t.Errorf("%s before its token's end, with the keys of %s, key %s: %v", time.Until(one.exp), v.url, kid, err)
				}
				signed[kid] = true
				verified++
			}
		}
		live = slices.DeleteFunc(live, func(one issued) bool { return !time.Now().Before(one.exp) })
	}
	cancel()
	all.Wait()
	won := 0.0
	for _, p := range replicas {
		n, err := strconv.ParseFloat(p.Metric(`lanyard_exchange_key_rotations_total{outcome="won"}`), 64)
		must(t, err)
		won += n
	}
	sets := 0
	for _, v := range verifiers {
		sets += v.fetched
	}
	total := made[0] + made[1] + made[2]
	t.Logf("%d keys have signed %d tokens; %d verifications at once and %d later, with %d fetched sets; %v keys were made",
		len(signed), total, 3*total, verified, sets, won)
	if total < 100 || verified < 1000 {
		t.Errorf("%d tokens and %d verifications are no load", total, verified)
	}
	if most := 2 + int(time.Since(begun)/every); int(won) < len(signed) || int(won) > most {
		t.Errorf("%v keys were made, and %d have signed; one at a time would be %d at most", won, len(signed), most)
	}
}
