package principal

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/lanyard-k8s/lanyard/client/internal/reach"
)

// How long keys are kept, and how often the exchange is asked.
const (
	defaultAge   = 5 * time.Minute // where the answer does not say
	leastAge     = 30 * time.Second
	mostAge      = time.Hour
	grace        = 10 * time.Minute // how much longer they count while the exchange cannot be asked
	cooldown     = 30 * time.Second // between two questions that an unknown key id causes
	failurePause = 5 * time.Second  // after a question that was not answered, as Retry-After says
	fetchTimeout = 5 * time.Second
	setAtMost    = 256 << 10
	keyIDAtMost  = 128
	leastRSA     = 2048
	absentAtMost = 64 // ids that are remembered as looked for
)

// errNoKeys says that there is no verdict now: no keys are to be had, or whether this one exists cannot be found out.
var errNoKeys = errors.New("the exchange's public keys are not to be had")

// algorithms are those that the exchange signs with. No symmetric one is among them: a public key must never serve as a secret.
func algorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{jose.ES256, jose.RS256, jose.EdDSA}
}

// publicKey is a published key.
type publicKey struct {
	key       any
	algorithm jose.SignatureAlgorithm
}

// keySet keeps the exchange's public keys.
type keySet struct {
	url  string
	http *http.Client

	asking chan struct{} // holds a token while nobody asks

	mu     sync.Mutex
	keys   map[string]publicKey
	fresh  time.Time // until then they are as good as new
	next   time.Time // no question before, but for those that are due
	unseen time.Time // no question for an unknown id before
	failed bool      // the last question was not answered
	absent []string  // ids that were asked for and are not published, the oldest first
}

func newKeySet(url string, via http.RoundTripper) *keySet {
	s := &keySet{url: url, http: &http.Client{Transport: via, CheckRedirect: reach.NoRedirect}, asking: make(chan struct{}, 1)}
	s.asking <- struct{}{}
	return s
}

// key finds a key. The exchange is asked when the keys have grown old, and once for an id that nobody knows; then it is left alone for a
// while, whatever ids come. While it does not answer, an id that nobody knows may be the next key's, so there is no verdict on it, unless
// it was asked for before: that counts as long as the keys do which were answered.
func (s *keySet) key(ctx context.Context, id string) (publicKey, bool, error) {
	k, known, due := s.look(id)
	if due {
		if err := s.ask(ctx, id); err != nil {
			return publicKey{}, false, err
		}
		k, known, _ = s.look(id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil || !time.Now().Before(s.fresh.Add(grace)) || !known && s.failed && !slices.Contains(s.absent, id) {
		return publicKey{}, false, errNoKeys
	}
	return k, known, nil
}

// look finds a key in what is kept, and says whether the exchange is to be asked.
func (s *keySet) look(id string) (k publicKey, known, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	k, known = s.keys[id]
	old := s.keys == nil || !now.Before(s.fresh)
	return k, known, old && !now.Before(s.next) || !old && !known && !now.Before(s.unseen)
}

// ask asks the exchange, one at a time; whoever waited looks first whether it is still needed.
func (s *keySet) ask(ctx context.Context, id string) error {
	select {
	case <-s.asking:
		defer func() { s.asking <- struct{}{} }()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errNoKeys, ctx.Err())
	}
	if _, _, due := s.look(id); !due {
		return nil
	}
	// The answer is everybody's: it is not broken off because this caller has gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
	defer cancel()
	keys, age, err := s.fetch(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.failed = err != nil; s.failed {
		s.next, s.unseen = now.Add(failurePause), now.Add(failurePause) // what is kept counts a little longer; see grace
		return nil
	}
	s.keys, s.fresh, s.next, s.unseen = keys, now.Add(age), time.Time{}, now.Add(cooldown)
	if _, known := keys[id]; !known && !slices.Contains(s.absent, id) {
		s.absent = append(s.absent, id)
		s.absent = s.absent[max(len(s.absent)-absentAtMost, 0):]
	}
	return nil
}

func (s *keySet) fetch(ctx context.Context) (map[string]publicKey, time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("ask for the keys: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, 0, fmt.Errorf("ask for the keys: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, setAtMost+1))
	if err != nil || resp.StatusCode != http.StatusOK || len(body) > setAtMost {
		return nil, 0, fmt.Errorf("ask for the keys: answered %d", resp.StatusCode)
	}
	keys, err := readSet(body)
	return keys, maxAge(resp.Header.Get("Cache-Control")), err
}

// readSet reads a JWK set (RFC 7517). Keys of other kinds and uses are passed over; two keys of one id are refused, for which of them
// counts would be a guess.
func readSet(body []byte) (map[string]publicKey, error) {
	var raw struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &raw); err != nil {
		return nil, errors.New("read the keys: no JWK set")
	}
	keys := map[string]publicKey{}
	for _, one := range raw.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(one) != nil || !usable(k) {
			continue
		}
		if _, twice := keys[k.KeyID]; twice {
			return nil, errors.New("read the keys: two have one id")
		}
		keys[k.KeyID] = publicKey{key: k.Key, algorithm: jose.SignatureAlgorithm(k.Algorithm)}
	}
	if len(keys) == 0 {
		return nil, errors.New("read the keys: none can be used")
	}
	return keys, nil
}

// usable says whether a key is a public one for signatures, of the kind that its algorithm wants and strong enough.
func usable(k jose.JSONWebKey) bool {
	if !k.Valid() || !k.IsPublic() || k.Use != "sig" || k.KeyID == "" || len(k.KeyID) > keyIDAtMost {
		return false
	}
	switch key := k.Key.(type) {
	case *ecdsa.PublicKey:
		return k.Algorithm == string(jose.ES256) && key.Curve == elliptic.P256()
	case *rsa.PublicKey:
		return k.Algorithm == string(jose.RS256) && key.N.BitLen() >= leastRSA
	case ed25519.PublicKey:
		return k.Algorithm == string(jose.EdDSA)
	default:
		return false
	}
}

// maxAge is how long the answer says that it may be kept, within bounds.
func maxAge(cacheControl string) time.Duration {
	for directive := range strings.SplitSeq(cacheControl, ",") {
		name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(directive)), "=")
		if name == "no-store" || name == "no-cache" {
			return leastAge
		}
		if seconds, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31); err == nil && name == "max-age" {
			return min(max(time.Duration(seconds)*time.Second, leastAge), mostAge)
		}
	}
	return defaultAge
}
