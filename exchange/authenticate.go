package exchange

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
	"github.com/lanyard-k8s/lanyard/internal/mint"
)

// Callout is what a gateway's question came to. Its text is a metric label.
type Callout string

// What is not one of mint.Faults.
const (
	CalloutAllowed     Callout = "allowed"
	CalloutNoToken     Callout = "no_token"          // none, or more than one, or another scheme
	CalloutRow         Callout = "row_ended"         // the token is good, its row stands no more
	CalloutNoRow       Callout = "row_unknown"       // a delegated token whose id names no row
	CalloutIdentity    Callout = "identity"          // a name that no header carries
	CalloutUnavailable Callout = "store_unavailable" // the row cannot be read
)

// Callouts lists every outcome once.
func Callouts() []Callout {
	out := []Callout{CalloutAllowed, CalloutNoToken, CalloutRow, CalloutNoRow, CalloutIdentity, CalloutUnavailable}
	for _, f := range mint.Faults() {
		out = append(out, Callout(f))
	}
	return out
}

// authenticate answers a gateway: 200 with the trusted headers, 401, or 503 where a row cannot be read. The gateway's question is the
// client's request without its body: its method, path, query, cookies and X-Original or X-Forwarded headers decide nothing.
func (d *Desk) authenticate(w http.ResponseWriter, r *http.Request) {
	token, outcome := d.verify(r)
	d.metrics.callouts.WithLabelValues(string(outcome)).Inc()
	d.log.V(1).Info("gateway callout", "outcome", string(outcome), "jti", token.ID)
	private(w.Header())
	switch outcome {
	case CalloutAllowed:
		for name, value := range d.trusted(token) {
			w.Header()[http.CanonicalHeaderKey(name)] = []string{value}
		}
		w.WriteHeader(http.StatusOK)
	case CalloutUnavailable:
		w.Header().Set("Retry-After", "1")
		writeError(w, http.StatusServiceUnavailable, string(grant.TemporarilyUnavailable), "try again later")
	case CalloutNoToken:
		w.Header().Set("WWW-Authenticate", `Bearer realm="lanyard"`)
		writeError(w, http.StatusUnauthorized, "unauthorized", "a bearer token is needed")
	default:
		w.Header().Set("WWW-Authenticate", `Bearer realm="lanyard", error="invalid_token"`)
		writeError(w, http.StatusUnauthorized, "invalid_token", "the token was refused")
	}
}

// verify judges the token and, where the settings say so, its row.
func (d *Desk) verify(r *http.Request) (mint.Token, Callout) {
	raw, ok := bearer(r.Header)
	if !ok {
		return mint.Token{}, CalloutNoToken
	}
	now := d.now()
	v, err := mint.NewVerifier(mint.Expectation{
		Issuer: d.rules.Issuer, Audience: d.settings.Callout.Audience, Reserved: d.rules.Reserved,
	}, func(id string) (mint.PublicKey, bool) { return d.keys.Lookup(id, now) })
	if err != nil {
		return mint.Token{}, CalloutUnavailable
	}
	token, err := v.Verify(raw, now)
	switch fault := mint.FaultOf(err); {
	case err == nil:
	case fault != "":
		return mint.Token{}, Callout(fault)
	default:
		return mint.Token{}, CalloutUnavailable
	}
	if !carried(token) {
		return mint.Token{}, CalloutIdentity
	}
	if token.Actor == "" || !d.settings.Callout.CheckRow {
		return token, CalloutAllowed
	}
	return token, d.stands(r.Context(), token, now)
}

// stands says whether the row of a delegated token still stands, for the same submitter.
func (d *Desk) stands(ctx context.Context, t mint.Token, now time.Time) Callout {
	name, ok := mint.RowOf(t.ID)
	if !ok {
		return CalloutNoRow
	}
	got, err := readRow(ctx, d.store, name)
	switch {
	case errors.Is(err, delegation.ErrNotFound):
		return CalloutRow // rows are collected only when no token of theirs can live any more
	case err != nil:
		if !contextDone(ctx, err) {
			d.log.Error(err, "the row cannot be read")
		}
		return CalloutUnavailable
	case got.Row.State != delegation.Active || got.Row.Expired(now) || !got.Submission.Live() || got.Submission.Submitter != t.Subject:
		return CalloutRow
	default:
		return CalloutAllowed
	}
}

// bearer is the token of the one Authorization header. Two headers are none: a gateway and a service may choose differently.
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
