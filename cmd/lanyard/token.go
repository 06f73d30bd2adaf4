package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/oauth2"
	"golang.org/x/term"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/client"
)

const tokenLong = `token exchanges this job's subject token for an access token of the platform, as the SDK does, and prints it: for shell
scripts in a managed job, and to see whether the exchange works.

The environment that the platform sets up says how: NMP_WORKLOAD_IDENTITY_TOKEN_FILE, NMP_BASE_URL and
NMP_CLIENT_SSL_CERT_FILE. The token acts for whoever submitted the job, for some minutes. Hand it on by a pipe: an argument
of a command is visible to every process on the machine. On a terminal the token is shown with --show only.

The program ends with 0 when there is a token, 1 when the exchange refused, 2 when it could not be asked for, 3 when no
token had come within --timeout.`

const tokenExample = `  # Call an API
  lanyard token --header | curl --silent -H @- https://platform.example/v1/datasets

  # Does the exchange know this pod?
  lanyard token > /dev/null

  # A token for another audience, on the terminal
  lanyard token --audience models --show`

// tokenFlags are the flags as they were given.
type tokenFlags struct {
	header, show    bool
	audience, scope string
	tokenFile       string
	baseURL         string
	caFile          string
	allowTokenHost  string
	timeout         time.Duration
}

func tokenCommand(s streams) *cobra.Command {
	var f tokenFlags
	cmd := &cobra.Command{
		Use:     "token [--header] [--show]",
		Short:   "Exchange this job's subject token for an access token",
		Long:    tokenLong,
		Example: tokenExample,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runToken(cmd.Context(), f, s) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.header, "header", false, "print a header, \"Authorization: Bearer ...\", as curl -H @- reads it")
	flags.BoolVar(&f.show, "show", false, "print the token even on a terminal")
	flags.StringVar(&f.audience, "audience", "", "`service` that the token is for (default: what the platform says)")
	flags.StringVar(&f.scope, "scope", "", "`scopes` to ask for, with spaces between (default: what the platform says)")
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` with the subject token (default: $"+wire.EnvSubjectTokenFile+")")
	flags.StringVar(&f.baseURL, "base-url", "", "the platform's `URL` (default: $"+wire.EnvBaseURL+")")
	flags.StringVar(&f.caFile, "ca-file", "", "`file` with the certificates that the platform's is checked against (default: $"+wire.EnvCAFile+", else the system's)")
	flags.StringVar(&f.allowTokenHost, "allow-token-host", "", "`host:port` that the token endpoint may have besides the platform's")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "how long to try")
	return cmd
}

func runToken(ctx context.Context, f tokenFlags, s streams) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	var once sync.Once
	o.Failed = func(err error) {
		if client.Temporary(err) {
			once.Do(func() { complain(s.err, "not yet: "+err.Error()+"; trying again for "+f.timeout.String()) })
		}
	}
	w, err := client.NewWorkload(o)
	if err != nil {
		return err
	}
	token, err := w.TokenContext(ctx)
	w.Close()
	if err != nil {
		return f.failure(err)
	}
	return f.write(s.out, token)
}

// options are the client's: what the environment says, unless a flag says otherwise.
func (f tokenFlags) options() (client.WorkloadOptions, error) {
	given := map[string]string{wire.EnvSubjectTokenFile: f.tokenFile, wire.EnvBaseURL: f.baseURL, wire.EnvCAFile: f.caFile}
	o, err := client.EnvOptions(func(name string) string {
		if given[name] != "" {
			return given[name]
		}
		return os.Getenv(name)
	})
	switch {
	case errors.Is(err, client.ErrNoIdentity):
		return o, fmt.Errorf("%w; run this in a managed job, or give --token-file and --base-url", err)
	case err != nil:
		return o, err
	case f.timeout <= 0:
		return o, errors.New("--timeout must be positive")
	}
	o.Audience, o.Scope, o.AllowTokenHost, o.Patience = f.audience, f.scope, f.allowTokenHost, f.timeout
	return o, nil
}

// write prints the token, on a terminal that it is there.
func (f tokenFlags) write(out io.Writer, token *oauth2.Token) error {
	format := "%s\n"
	if f.header {
		format = "Authorization: Bearer %s\n"
	}
	if onTerminal(out) && !f.show {
		_, err := fmt.Fprintf(out, "There is a token, good for %s. It is not shown on a terminal: send it through a pipe, or give --show.\n", time.Until(token.Expiry).Round(time.Second))
		return err
	}
	_, err := fmt.Fprintf(out, format, token.AccessToken)
	return err
}

func onTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// failure turns an exchange's failure into a line that says what to do, and an exit code.
func (f tokenFlags) failure(err error) error {
	var e *client.ExchangeError
	switch {
	case client.Temporary(err):
		return codedError{exitUnavailable, fmt.Sprintf("no token within %s: %s", f.timeout, err)}
	case errors.As(err, &e) && e.Step == client.StepFile, !errors.As(err, &e):
		return err
	case e.Code == "invalid_request":
		return codedError{exitFound, "refused: " + err.Error() + "; the pod's Events say more where the platform has judged this pod"}
	default:
		return codedError{exitFound, "refused: " + err.Error()}
	}
}
