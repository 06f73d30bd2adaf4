package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/client/internal/reach"
	"github.com/lanyard-k8s/lanyard/internal/tokenfile"
)

// The bounds of what is asked and answered.
const (
	discoveryTimeout = 10 * time.Second
	exchangeTimeout  = 15 * time.Second // the exchange holds a request for 5 s itself
	answerAtMost     = 64 << 10
	discoveryKept    = time.Hour
	longestLife      = 24 * time.Hour
)

// proofPrefix starts Docker's proofs, which are presented under a type of their own.
const proofPrefix = "nmp_obo_v1."

// exchanger gets access tokens. Only one goroutine uses it at a time.
type exchanger struct {
	o    WorkloadOptions
	base *url.URL
	http *http.Client

	found   *endpoint
	foundAt time.Time
}

// endpoint is what discovery says.
type endpoint struct{ url, clientID, audience, scope string }

func newExchanger(o WorkloadOptions, base *url.URL) *exchanger {
	return &exchanger{o: o, base: base, http: &http.Client{Transport: o.Transport, CheckRedirect: reach.NoRedirect}}
}

// exchange reads the file and exchanges what it holds. Where that is refused and the file has been replaced meanwhile, the new
// token is tried, once.
func (e *exchanger) exchange(ctx context.Context) (held, error) {
	at, err := e.discover(ctx)
	if err != nil {
		return held{}, err
	}
	var before string
	for {
		subject, err := tokenfile.Read(e.o.TokenFile)
		if err != nil {
			return held{}, &ExchangeError{Step: StepFile, Err: err}
		}
		h, err := e.post(ctx, at, subject)
		var refused *ExchangeError
		if err == nil || !errors.As(err, &refused) || refused.Status != http.StatusBadRequest || before != "" {
			return h, e.forget(err)
		}
		before = subject
		if again, err := tokenfile.Read(e.o.TokenFile); err != nil || again == before {
			return held{}, e.forget(refused)
		}
	}
}

// forget asks discovery anew the next time after a failure; the platform may have moved.
func (e *exchanger) forget(err error) error {
	if err != nil {
		e.found = nil
	}
	return err
}

// post makes one exchange. A token's life is counted from before the request, by this machine's clock alone, so that no clock needs to
// agree with another.
func (e *exchanger) post(ctx context.Context, at endpoint, subject string) (held, error) {
	form := url.Values{
		"grant_type":           {wire.GrantTypeTokenExchange},
		"client_id":            {at.clientID},
		"subject_token":        {subject},
		"subject_token_type":   {wire.TokenTypeJWT},
		"requested_token_type": {wire.TokenTypeAccess},
	}
	if strings.HasPrefix(subject, proofPrefix) {
		form.Set("subject_token_type", wire.TokenTypeDockerProof)
	}
	if at.audience != "" {
		form.Set("audience", at.audience)
	}
	if at.scope != "" {
		form.Set("scope", at.scope)
	}
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.url, strings.NewReader(form.Encode()))
	if err != nil {
		return held{}, &ExchangeError{Step: StepExchange, Err: errors.New("the token endpoint is no URL")}
	}
	req.Header.Set("Content-Type", wire.FormType)
	asked := time.Now()
	body, fault := e.answer(req, StepExchange)
	if fault != nil {
		fault.describe(body, subject)
		return held{}, fault
	}
	return readAnswer(body, asked)
}

// answer sends a request and reads what comes back, which is JSON in 64 KiB at most. The body comes beside a fault too.
func (e *exchanger) answer(req *http.Request, step Step) ([]byte, *ExchangeError) {
	req.Header.Set("Accept", "application/json")
	resp, err := e.http.Do(req)
	if err != nil {
		var in *url.Error
		if errors.As(err, &in) {
			err = in.Err // the URL is known to whoever reads this
		}
		return nil, &ExchangeError{Step: step, Err: err, temporary: !reach.Distrusted(err)}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerAtMost+1))
	fault := &ExchangeError{Step: step, Status: resp.StatusCode}
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		fault.Err = errors.New("a redirect, which is not followed")
	case resp.StatusCode != http.StatusOK:
		fault.temporary = resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusRequestTimeout
		fault.retryAfter = retryAfter(resp)
	case err != nil:
		fault.Err, fault.temporary = errors.New("the answer broke off"), true
	case len(body) > answerAtMost:
		fault.Err, body = errors.New("the answer is too long"), nil
	default:
		return body, nil
	}
	return body, fault
}

// retryAfter is how long a 503 or 429 asks to wait, in seconds or until a date; 0 if it does not say.
func retryAfter(resp *http.Response) time.Duration {
	if resp.StatusCode != http.StatusServiceUnavailable && resp.StatusCode != http.StatusTooManyRequests {
		return 0
	}
	value := strings.TrimSpace(resp.Header.Get("Retry-After"))
	wait := time.Duration(0)
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(value); err == nil {
		wait = time.Until(date)
	}
	return min(max(wait, 0), longestRetryAfter)
}

// describe adds what an OAuth error says.
func (e *ExchangeError) describe(body []byte, subject string) {
	var answer struct {
		Code        string `json:"error"`
		Description string `json:"error_description"`
	}
	if e.Err != nil || json.Unmarshal(body, &answer) != nil {
		return
	}
	e.Code = said(answer.Code, subject)
	if answer.Description != "" {
		e.Err = errors.New(said(answer.Description, subject))
	}
}

// readAnswer reads a successful answer (RFC 8693 section 2.2.1). A scope of null means that nothing was granted.
func readAnswer(body []byte, asked time.Time) (held, error) {
	var answer struct {
		AccessToken string  `json:"access_token"`
		IssuedType  string  `json:"issued_token_type"`
		TokenType   string  `json:"token_type"`
		ExpiresIn   int64   `json:"expires_in"`
		Scope       *string `json:"scope"`
	}
	bad := func(format string, args ...any) (held, error) {
		return held{}, &ExchangeError{Step: StepExchange, Status: http.StatusOK, Err: fmt.Errorf(format, args...)}
	}
	if json.Unmarshal(body, &answer) != nil { // its error may show what was answered
		return bad("the answer is not the JSON of a token")
	}
	switch {
	case answer.AccessToken == "" || len(answer.AccessToken) > tokenAtMost || !visible(answer.AccessToken):
		return bad("the answer holds no token that fits into a header")
	case !strings.EqualFold(answer.TokenType, "Bearer"):
		return bad("the token's type is not Bearer")
	case answer.IssuedType != wire.TokenTypeAccess:
		return bad("the issued token is no access token")
	case answer.ExpiresIn <= 0:
		return bad("expires_in must be positive")
	}
	life := min(time.Duration(min(answer.ExpiresIn, int64(longestLife/time.Second)))*time.Second, longestLife)
	return newHeld(answer.AccessToken, asked, life), nil
}
