package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/oauth2"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// platformCommand is the transcripts' "platform": an exchange on loopback, whose answers go by the subject token, and the environment of a
// managed job.
func platformCommand(ts *testscript.TestScript, _ bool, _ []string) {
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == wire.PathDiscovery {
			fmt.Fprintf(w, `{"auth_enabled":true,"oidc":{"workload_token_exchange_enabled":true,"workload_client_id":"nemo-platform","workload_token_endpoint":%q,"workload_audience":"api"}}`, s.URL+wire.PathToken)
			return
		}
		answerToken(w, r)
	}))
	ts.Defer(s.Close)
	ts.Setenv(wire.EnvBaseURL, s.URL)
	ts.Setenv(wire.EnvSubjectTokenFile, ts.MkAbs("subject"))
}

func answerToken(w http.ResponseWriter, r *http.Request) {
	switch subject := r.PostFormValue("subject_token"); subject {
	case "good":
		fmt.Fprintf(w, `{"access_token":"access.for.%s","issued_token_type":%q,"token_type":"Bearer","expires_in":300,"scope":null}`, r.PostFormValue("audience"), wire.TokenTypeAccess)
	case "unknown":
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"error":"temporarily_unavailable","error_description":"try again later"}`)
	default:
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":"invalid_request","error_description":"refused %s"}`, subject)
	}
}

func TestATerminalShowsNoToken(t *testing.T) {
	t.Parallel()
	token := &oauth2.Token{AccessToken: "secret.token.here", Expiry: time.Now().Add(5 * time.Minute)}
	for name, tc := range map[string]struct {
		flags    tokenFlags
		terminal bool
		want     string
	}{
		"a pipe":                      {want: "secret.token.here\n"},
		"a header to a pipe":          {flags: tokenFlags{header: true}, want: "Authorization: Bearer secret.token.here\n"},
		"a terminal":                  {terminal: true, want: "There is a token, good for 5m0s. It is not shown on a terminal: send it through a pipe, or give --show.\n"},
		"a header to a terminal":      {flags: tokenFlags{header: true}, terminal: true, want: "There is a token, good for 5m0s. It is not shown on a terminal: send it through a pipe, or give --show.\n"},
		"a terminal that may show it": {flags: tokenFlags{show: true}, terminal: true, want: "secret.token.here\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !tc.terminal {
				var out bytes.Buffer
				if err := tc.flags.write(&out, token); err != nil || out.String() != tc.want {
					t.Errorf("printed %q, %v", out.String(), err)
				}
				return
			}
			terminal, screen := openTerminal(t)
			if err := tc.flags.write(terminal, token); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 1024)
			n, err := screen.Read(got)
			text := strings.ReplaceAll(string(got[:n]), "\r\n", "\n")
			// Some seconds may have passed since the token was made.
			if text = regexp.MustCompile(`good for 4m\d+s\.`).ReplaceAllString(text, "good for 5m0s."); err != nil || text != tc.want {
				t.Errorf("the screen shows %q, %v; want %q", text, err, tc.want)
			}
		})
	}
}
