package exchange

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/lanyard-k8s/lanyard/exchange/grant"
)

// success is RFC 8693's answer (section 2.2.1). The scope is null where nothing was granted, and never left out. There is no refresh
// token: the subject token can be exchanged again.
type success struct {
	AccessToken     string  `json:"access_token"`
	IssuedTokenType string  `json:"issued_token_type"`
	TokenType       string  `json:"token_type"`
	ExpiresIn       int64   `json:"expires_in"`
	Scope           *string `json:"scope"`
}

// failure is RFC 6749's (section 5.2).
type failure struct {
	Error       string `json:"error"`
	Description string `json:"error_description"`
}

// private sets the headers of every answer that is about somebody. They are set in one place for success and failure alike:
// many servers forget one of the two.
func private(h http.Header) {
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("Pragma", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	private(w.Header())
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client may be gone
}

func writeError(w http.ResponseWriter, status int, code, description string) {
	writeJSON(w, status, failure{Error: code, Description: description})
}

// writeRefusal is the one place where a refusal becomes an answer.
func writeRefusal(w http.ResponseWriter, refusal grant.Refusal) {
	if after := refusal.RetryAfter(); after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(after))
	}
	code := refusal.Code
	if code == "" {
		code = grant.ServerError // a refusal that nobody decided is a fault of ours
	}
	if refusal.Status() == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="lanyard"`) // RFC 6749 section 5.2, where an Authorization header was tried
	}
	writeError(w, refusal.Status(), string(code), refusal.Description())
}

func writeGranted(w http.ResponseWriter, token string, c *grant.Claims) {
	answer := success{
		AccessToken: token, IssuedTokenType: grant.TokenTypeAccess, TokenType: "Bearer", ExpiresIn: c.ExpiresIn(),
	}
	if c.Scope != "" {
		answer.Scope = &c.Scope
	}
	writeJSON(w, http.StatusOK, answer)
}
