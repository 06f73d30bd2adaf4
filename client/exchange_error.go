package client

import (
	"fmt"
	"strings"
	"time"
)

// ExchangeError is why there is no access token. It holds neither the subject token nor an access token.
type ExchangeError struct {
	// Step is what was being done: StepFile, StepDiscovery or StepExchange.
	Step Step
	// Status is the HTTP status that was answered, 0 if there was no answer.
	Status int
	// Code is OAuth's, such as "invalid_request"; it may be empty.
	Code string
	// Err is what happened, in words.
	Err error

	temporary  bool
	retryAfter time.Duration
}

// Step is a part of getting an access token.
type Step string

// The steps.
const (
	StepFile      Step = "read the subject token"
	StepDiscovery Step = "discover the token endpoint"
	StepExchange  Step = "exchange the subject token"
)

// Error is one line.
func (e *ExchangeError) Error() string {
	text := string(e.Step) + ": "
	if e.Status != 0 {
		text += fmt.Sprintf("answered %d", e.Status)
		if e.Code != "" {
			text += " " + e.Code
		}
		if e.Err != nil {
			text += ": "
		}
	}
	if e.Err != nil {
		text += e.Err.Error()
	}
	return text
}

// Unwrap is what happened.
func (e *ExchangeError) Unwrap() error { return e.Err }

// Temporary says whether the same may succeed later: the exchange is not reachable, not ready, or has not judged the workload yet.
func (e *ExchangeError) Temporary() bool { return e.temporary }

// longestRetryAfter bounds what a server may ask for.
const longestRetryAfter = 60 * time.Second

// said is a text of the server's as it may be shown: printable, short, and without any part of a token.
func said(text string, tokens ...string) string {
	for _, token := range tokens {
		for part := range strings.SplitSeq(token, ".") {
			if len(part) >= 8 && strings.Contains(text, part) {
				return "(the server's description holds the token)"
			}
		}
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, text)
	return text[:min(len(text), 200)]
}
