package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/lanyard-k8s/lanyard/client/internal/reach"
)

// Workload is this process's identity in a managed job: it exchanges the subject token that the platform mounted for access tokens, with
// which the process calls the platform's APIs on behalf of whoever submitted the job (OAuth 2.0 Token Exchange, RFC 8693).
//
// One exchange runs at a time, for any number of callers. A token is replaced in the background from a minute before its end on
// (a fifth of its life, if that is less), while the old one is still given out; an exchange that fails leaves it in place and is tried
// again later. A Workload is an oauth2.TokenSource, and safe for concurrent use.
type Workload struct {
	o        WorkloadOptions
	base     string // the origin of the base URL
	exchange func(context.Context) (held, error)
	ctx      context.Context
	stop     context.CancelFunc
	flights  sync.WaitGroup

	mu       sync.Mutex
	now      held
	flight   *flight
	failure  error
	failures int
	next     time.Time // no exchange starts before
	trusted  int       // which CA was in force when the last one failed
	renewed  time.Time // when a rejected token was last replaced
	closed   bool
}

var _ oauth2.TokenSource = (*Workload)(nil)

// NewWorkload makes a Workload. It reads no token yet and calls nobody. Close it in the end.
func NewWorkload(o WorkloadOptions) (*Workload, error) {
	o, base, err := o.filled()
	if err != nil {
		return nil, err
	}
	origin, err := reach.Origin(base)
	if err != nil {
		return nil, err
	}
	w := &Workload{o: o, base: origin, exchange: newExchanger(o, base).exchange}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w, nil
}

// Close ends what runs in the background. Afterwards there are no tokens.
func (w *Workload) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.stop()
	w.flights.Wait()
	if idle, ok := w.o.Transport.(interface{ CloseIdleConnections() }); ok {
		idle.CloseIdleConnections()
	}
}

// Token is TokenContext for oauth2.TokenSource, which knows no context. Unlike a Workload, what oauth2.NewClient makes of it sends
// tokens wherever it is told to go; prefer RoundTripper.
func (w *Workload) Token() (*oauth2.Token, error) { return w.TokenContext(context.Background()) }

// TokenContext returns an access token. Without one it waits for the exchange until ctx ends, or Options' Patience: a pod that has
// just started is often not known yet. Where waiting does not help, an *ExchangeError comes at once.
func (w *Workload) TokenContext(ctx context.Context) (*oauth2.Token, error) {
	h, err := w.get(ctx)
	if err != nil {
		return nil, err
	}
	return &oauth2.Token{AccessToken: h.token(), TokenType: "Bearer", Expiry: h.ends}, nil
}

// Format prints a Workload without anything in it, whatever the verb.
func (w *Workload) Format(f fmt.State, _ rune) {
	_, _ = f.Write([]byte("client.Workload(" + w.base + ")"))
}

// RoundTripper adds an access token to requests that go to one of the origins, such as "https://api.example:8443"; to BaseURL's if none
// is given. Requests to other places, those that a redirect leads to among them, pass without. An Authorization header that a request
// to an origin has is replaced.
//
// After a 401 the token that failed is replaced, once, and the request sent again if its body can be. next sends the requests; nil
// means a transport that trusts CAFile.
func (w *Workload) RoundTripper(next http.RoundTripper, origin ...string) (http.RoundTripper, error) {
	to, err := w.origins(origin)
	if err != nil {
		return nil, err
	}
	if next == nil {
		next = w.o.Transport
	}
	return &roundTripper{tokens: w, to: to, next: next}, nil
}

func (w *Workload) origins(list []string) (origins, error) {
	if len(list) == 0 {
		list = []string{w.base}
	}
	return newOrigins(list)
}

// held is an access token.
type held struct {
	token     secret
	refreshAt time.Time
	ends      time.Time
}

// refreshBefore is how long before its end a token is replaced, refreshPart the part of its life if that is shorter.
const (
	refreshBefore = 60 * time.Second
	refreshPart   = 5
)

func newHeld(token string, from time.Time, life time.Duration) held {
	ends := from.Add(life)
	return held{token: conceal(token), refreshAt: ends.Add(-min(refreshBefore, life/refreshPart)), ends: ends}
}

// valid says whether the token can still be given out.
func (h held) valid(now time.Time) bool { return h.token != nil && now.Before(h.ends) }

// is says whether this is the token that somebody holds.
func (h held) is(token string) bool { return h.token != nil && h.token() == token }

var errPatience = errors.New("no access token in time")
