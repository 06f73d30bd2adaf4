package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/client/internal/reach"
)

// ErrExchangeOff says that the platform exchanges no workload tokens.
var ErrExchangeOff = errors.New("the platform has workload token exchange switched off")

// document is what is read of the discovery document; what is unset in it is null.
type document struct {
	AuthEnabled bool `json:"auth_enabled"`
	OIDC        struct {
		Enabled       bool   `json:"workload_token_exchange_enabled"`
		ClientID      string `json:"client_id"`
		WorkloadID    string `json:"workload_client_id"`
		TokenEndpoint string `json:"workload_token_endpoint"`
		Audience      string `json:"workload_audience"`
		Scope         words  `json:"workload_scope"`
	} `json:"oidc"`
}

// words are scopes, separated by spaces as a token request sends them. A platform may write them as a list.
type words string

// UnmarshalJSON reads a text, a list of texts or null.
func (w *words) UnmarshalJSON(raw []byte) error {
	var one *string
	if err := json.Unmarshal(raw, &one); err == nil {
		*w = ""
		if one != nil {
			*w = words(*one)
		}
		return nil
	}
	var list []string
	if err := json.Unmarshal(raw, &list); err != nil {
		return errors.New("scopes are neither a text nor a list of texts")
	}
	*w = words(strings.Join(list, " "))
	return nil
}

// discover asks where tokens are exchanged. The answer is kept for an hour, or until an exchange fails.
func (e *exchanger) discover(ctx context.Context) (endpoint, error) {
	if e.found != nil && time.Since(e.foundAt) < discoveryKept {
		return *e.found, nil
	}
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	at := *e.base
	at.Path, at.RawPath = strings.TrimRight(at.Path, "/")+wire.PathDiscovery, ""
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return endpoint{}, &ExchangeError{Step: StepDiscovery, Err: errors.New("the base URL is no URL")}
	}
	body, fault := e.answer(req, StepDiscovery)
	if fault != nil {
		fault.describe(body, "")
		return endpoint{}, fault
	}
	found, err := e.read(body)
	if err != nil {
		return endpoint{}, &ExchangeError{Step: StepDiscovery, Err: err}
	}
	e.found, e.foundAt = &found, time.Now()
	return found, nil
}

// read judges the document.
func (e *exchanger) read(body []byte) (endpoint, error) {
	var d document
	if json.Unmarshal(body, &d) != nil {
		return endpoint{}, errors.New("the answer is no discovery document")
	}
	if !d.AuthEnabled || !d.OIDC.Enabled {
		return endpoint{}, ErrExchangeOff
	}
	found := endpoint{url: d.OIDC.TokenEndpoint, clientID: d.OIDC.WorkloadID, audience: d.OIDC.Audience, scope: string(d.OIDC.Scope)}
	fill(&found.clientID, d.OIDC.ClientID)
	if e.o.Audience != "" {
		found.audience = e.o.Audience
	}
	if e.o.Scope != "" {
		found.scope = e.o.Scope
	}
	if found.clientID == "" {
		return endpoint{}, errors.New("the discovery document names no client id")
	}
	return found, e.checkEndpoint(found.url)
}

// checkEndpoint refuses a token endpoint that the subject token must not be sent to: whoever can change the discovery document could
// otherwise collect subject tokens.
func (e *exchanger) checkEndpoint(raw string) error {
	at, err := reach.ParseURL(raw)
	if err != nil {
		return fmt.Errorf("the token endpoint %w", err)
	}
	host, base := hostPort(at), hostPort(e.base)
	switch {
	case host != base && host != e.o.AllowTokenHost:
		return fmt.Errorf("the token endpoint is at %q, not at the base URL's %q; if that is right, name it as the allowed token host", said(host), base)
	case strings.EqualFold(e.base.Scheme, "https") && !strings.EqualFold(at.Scheme, "https"):
		return errors.New("the token endpoint must be https as the base URL is")
	}
	return nil
}

// hostPort is the host and port of a URL that parseURL has read.
func hostPort(u *url.URL) string {
	origin, _ := reach.Origin(u)
	_, rest, _ := strings.Cut(origin, "://")
	host, port, _ := net.SplitHostPort(rest)
	return net.JoinHostPort(host, port)
}
