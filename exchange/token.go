package exchange

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/lanyard-k8s/lanyard/exchange/grant"
	"github.com/lanyard-k8s/lanyard/internal/mint"
)

// asked is one token request and what became known of it, for the answer, the metric and the audit line. It holds no token: the form
// is gone once the proof was verified.
type asked struct {
	from     string
	kind     string
	audience string
	proof    grant.Proof
	uid      string // the submission's
	subject  string
	credID   string // the subject token's own id
	held     time.Duration
	detail   string // for the log, where a verdict has one

	refusal grant.Refusal
	claims  *grant.Claims
	key     string
	token   string
}

// refuse notes the reason. There is one for each request.
func (a *asked) refuse(why grant.Reason) { a.refusal = grant.Refuse(why) }

// token answers POST /apis/auth/token.
func (d *Desk) token(w http.ResponseWriter, r *http.Request) {
	start := d.now()
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		d.metrics.requests.WithLabelValues(outcomeMethod).Inc()
		writeError(w, http.StatusMethodNotAllowed, string(grant.InvalidRequest), "the token endpoint takes POST only")
		return
	}
	a := asked{from: address(r)}
	d.exchange(w, r, &a)
	gone := r.Context().Err() != nil && a.claims == nil
	d.metrics.answered(&a, gone, d.now().Sub(start))
	d.line(&a, gone)
	switch {
	case gone: // nobody is there to read an answer
	case a.claims != nil:
		writeGranted(w, a.token, a.claims)
	default:
		writeRefusal(w, a.refusal)
	}
}

// exchange finds out what to answer.
func (d *Desk) exchange(w http.ResponseWriter, r *http.Request, a *asked) {
	q, refusal := d.read(w, r)
	if refusal != nil {
		a.refusal = *refusal
		return
	}
	a.kind, a.audience = q.SubjectTokenType, q.Audience
	if why := d.prove(r.Context(), q, a); why != "" {
		a.refuse(why)
		return
	}
	select { // after the proof: slow clients, and tokens that the reviewer holds back within limits of its own, take nobody's place
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	default:
		a.refuse(grant.RateLimited)
		return
	}
	q.SubjectToken = ""
	d.decide(r.Context(), q, a)
	if a.claims != nil {
		d.sign(a)
	}
}

// read reads the form. An Authorization header is a second way to say who the client is, and none of ours (RFC 6749 section 2.3).
func (d *Desk) read(w http.ResponseWriter, r *http.Request) (grant.Request, *grant.Refusal) {
	query := r.URL.RawQuery
	if r.URL.ForceQuery {
		query = "?"
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, grant.MaxBody))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		refusal := grant.Refuse(grant.BodyTooLong)
		return grant.Request{}, &refusal
	case err != nil:
		refusal := grant.Refuse(grant.BodyMalformed)
		return grant.Request{}, &refusal
	}
	contentType := ""
	if given := r.Header["Content-Type"]; len(given) == 1 {
		contentType = given[0]
	}
	q, refusal := grant.ParseRequest(d.rules, contentType, query, body)
	if refusal == nil && len(r.Header["Authorization"]) > 0 {
		why := grant.Refuse(grant.ClientUnknown)
		return grant.Request{}, &why
	}
	return q, refusal
}

// sign makes the token of a decision. Without a key there is none, and the next request may find one.
func (d *Desk) sign(a *asked) {
	claims := a.claims
	a.claims = nil
	signer, err := d.keys.Signer(d.now())
	if err != nil {
		d.log.Error(err, "no key signs")
		a.refuse(grant.KeyUnavailable)
		return
	}
	claims.ID = mint.NewID(a.proof.Name)
	token, err := signer.Sign(*claims)
	if err != nil {
		d.log.Error(err, "a token cannot be signed")
		a.refusal = grant.Refusal{Code: grant.ServerError, Reason: grant.KeyUnavailable}
		return
	}
	a.claims, a.token, a.key = claims, token, signer.KeyID()
}

// address is the other end of the connection. Headers that say otherwise are anybody's word.
func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// contextDone says whether an error is the request's own end.
func contextDone(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}
