package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/lanyard-k8s/lanyard/client/internal/reach"
)

// drainAtMost is how much of a rejected answer is read so that its connection can be used again.
const drainAtMost = 16 << 10

// roundTripper adds tokens to requests.
type roundTripper struct {
	tokens *Workload
	to     origins
	next   http.RoundTripper
}

// RoundTrip sends a request, with a token if it goes to one of the origins. The request itself is not changed.
func (t *roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.to.has(r.URL) {
		return t.next.RoundTrip(r)
	}
	h, err := t.tokens.get(r.Context())
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper always does
		}
		return nil, err
	}
	resp, err := t.next.RoundTrip(bearing(r, h, r.Body))
	if err != nil || resp.StatusCode != http.StatusUnauthorized || !reach.Replayable(r) {
		return resp, err
	}
	fresh, ok := t.tokens.renew(r.Context(), h.token())
	if !ok {
		return resp, nil
	}
	body, err := reach.Body(r)
	if err != nil {
		return resp, nil // the answer that there is says more
	}
	_, _ = io.CopyN(io.Discard, resp.Body, drainAtMost)
	_ = resp.Body.Close()
	return t.next.RoundTrip(bearing(r, fresh, body))
}

// Format prints where tokens go, whatever the verb.
func (t *roundTripper) Format(f fmt.State, _ rune) { t.to.format(f) }

// bearing is the request with a token.
func bearing(r *http.Request, h held, body io.ReadCloser) *http.Request {
	out := r.Clone(r.Context())
	out.Header.Set("Authorization", "Bearer "+h.token())
	out.Body = body
	return out
}

// PerRPCCredentials presents an access token with every gRPC call to one of the origins, such as "https://api.example:8443"; to
// BaseURL's if none is given. A call over a connection to somewhere else fails: credentials are given to a connection, and this one was
// given to the wrong one. The connection must be TLS.
func (w *Workload) PerRPCCredentials(origin ...string) (credentials.PerRPCCredentials, error) {
	to, err := w.origins(origin)
	if err != nil {
		return nil, err
	}
	return rpcCredentials{w, to}, nil
}

type rpcCredentials struct {
	tokens *Workload
	to     origins
}

// GetRequestMetadata gets a token. Where waiting may help the call ends as Unavailable, else as Unauthenticated.
func (c rpcCredentials) GetRequestMetadata(ctx context.Context, uri ...string) (map[string]string, error) {
	info, ok := credentials.RequestInfoFromContext(ctx)
	if ok && credentials.CheckSecurityLevel(info.AuthInfo, credentials.PrivacyAndIntegrity) != nil {
		return nil, status.Error(codes.Unauthenticated, "an access token is sent only over TLS")
	}
	for _, raw := range uri {
		if u, err := url.Parse(raw); err != nil || !c.to.has(u) {
			return nil, status.Error(codes.Unauthenticated, "an access token is not sent there: the server is none of the configured origins")
		}
	}
	h, err := c.tokens.get(ctx)
	switch {
	case err == nil:
		return map[string]string{"authorization": "Bearer " + h.token()}, nil
	case ctx.Err() != nil:
		return nil, status.FromContextError(ctx.Err()).Err()
	case Temporary(err):
		return nil, status.Error(codes.Unavailable, err.Error())
	default:
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
}

// Format prints where tokens go, whatever the verb.
func (c rpcCredentials) Format(f fmt.State, _ rune) { c.to.format(f) }

// RequireTransportSecurity keeps gRPC from using these credentials on a connection in clear text.
func (rpcCredentials) RequireTransportSecurity() bool { return true }
