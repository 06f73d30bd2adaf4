package principal

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/client/internal/reach"
)

// Options make a Guard. BaseURL, Issuer and Audience are needed.
type Options struct {
	// BaseURL is the exchange's, such as "https://lanyard-exchange.lanyard.svc:8443": https, or http on this machine's loopback address.
	BaseURL string
	// CAFile holds the certificates that the exchange's is checked against; empty means the system's.
	CAFile string
	// Issuer and Audience must stand in a token, byte for byte. The audience is this service's, or the platform's.
	Issuer, Audience string
	// SystemSubjects are subjects with "system:" in front that are accepted all the same.
	SystemSubjects []string
	// HeaderPrefixes start the trusted headers; nil means "X-NMP-".
	HeaderPrefixes []string
	// Refused is told why a request was not let pass. It may be nil and must not block.
	Refused func(*http.Request, Reason)
	// Transport fetches the keys, in place of one made for CAFile.
	Transport http.RoundTripper
}

// Guard lets only requests with an access token of the exchange's pass. It is safe for concurrent use.
type Guard struct {
	o       Options
	keys    *keySet
	headers trusted
	close   func()
}

// NewGuard makes a Guard. The exchange is first asked for its keys when a token comes. Close it in the end.
func NewGuard(o Options) (*Guard, error) {
	if o.Issuer == "" || o.Audience == "" {
		return nil, errors.New("a guard needs an issuer and an audience")
	}
	if o.HeaderPrefixes == nil {
		o.HeaderPrefixes = []string{wire.DefaultHeaderPrefix}
	}
	for _, p := range o.HeaderPrefixes {
		if len(p) < 3 || !strings.HasSuffix(p, "-") || strings.ContainsFunc(p, notInName) {
			return nil, fmt.Errorf("header prefix %q: must be such as %s", p, wire.DefaultHeaderPrefix)
		}
	}
	base, err := reach.ParseURL(o.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("base URL %q: %w", reach.Redact(o.BaseURL), err)
	}
	via := o.Transport
	if via == nil {
		if via, err = reach.NewTransport(o.CAFile); err != nil {
			return nil, err
		}
	}
	g := &Guard{o: o, keys: newKeySet(strings.TrimRight(base.String(), "/")+wire.PathJWKS, via), headers: newTrusted(o.HeaderPrefixes), close: func() {}}
	if idle, ok := via.(interface{ CloseIdleConnections() }); ok {
		g.close = idle.CloseIdleConnections
	}
	return g, nil
}

func notInName(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-'
}

// Close lets go of connections.
func (g *Guard) Close() { g.close() }

// Verify says who an access token is about, or why it is refused, with an *Error. The header is judged before any key is looked for, and
// the signature before any claim is read.
func (g *Guard) Verify(ctx context.Context, token string) (Principal, error) {
	who, why := g.verify(ctx, token)
	if why != "" {
		return Principal{}, &Error{why}
	}
	return who, nil
}

func (g *Guard) verify(ctx context.Context, token string) (Principal, Reason) {
	h, why := readHeader(token)
	if why != "" {
		return Principal{}, why
	}
	key, known, err := g.keys.key(ctx, h.KeyID)
	switch {
	case err != nil:
		return Principal{}, Unavailable
	case !known:
		return Principal{}, UnknownKey
	case string(key.algorithm) != h.Algorithm:
		return Principal{}, BadAlgorithm
	}
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{key.algorithm})
	if err != nil {
		return Principal{}, Malformed
	}
	raw, err := signed.Verify(key.key)
	if err != nil {
		return Principal{}, BadSignature
	}
	return g.judge(raw, time.Now())
}

// Wrap guards a handler. A request without a good token is answered 401, 503 while the exchange's keys are not to be had.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		g.headers.strip(r)
		token, ok := bearer(r.Header)
		who, why := Principal{}, NoToken
		if ok {
			who, why = g.verify(r.Context(), token)
		}
		if why != "" {
			if g.o.Refused != nil {
				g.o.Refused(r, why)
			}
			refuse(w, why)
			return
		}
		g.headers.set(r.Header, who)
		next.ServeHTTP(w, r.WithContext(NewContext(r.Context(), who)))
	})
}

// refuse answers. What was wrong with a token is not the caller's to know.
func refuse(w http.ResponseWriter, why Reason) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	status, body := http.StatusUnauthorized, `{"error":"invalid_token","error_description":"the token was refused"}`
	switch why {
	case Unavailable:
		h.Set("Retry-After", "5")
		status, body = http.StatusServiceUnavailable, `{"error":"temporarily_unavailable","error_description":"try again later"}`
	case NoToken:
		h.Set("WWW-Authenticate", `Bearer realm="lanyard"`)
		body = `{"error":"unauthorized","error_description":"a bearer token is needed"}`
	default:
		h.Set("WWW-Authenticate", `Bearer realm="lanyard", error="invalid_token"`)
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body + "\n")) // the client may be gone
}

// bearer is the token of the one Authorization header. Two headers are none: somebody else might choose differently.
func bearer(h http.Header) (string, bool) {
	given := h["Authorization"]
	if len(given) != 1 {
		return "", false
	}
	scheme, token, found := strings.Cut(given[0], " ")
	if !found || !strings.EqualFold(scheme, "Bearer") || token == "" || strings.ContainsAny(token, " \t,") {
		return "", false
	}
	return token, true
}
