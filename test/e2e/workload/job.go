package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/client"
)

// identityLine is what an access token says: for whom, and by whom.
type identityLine struct {
	Mode     string    `json:"mode"`
	Issuer   string    `json:"iss"`
	Subject  string    `json:"sub"`
	Actor    actor     `json:"act"`
	For      audiences `json:"aud"`
	Scope    string    `json:"scope"`
	Delegate string    `json:"jti"`
	Expires  int64     `json:"exp"`
	Seconds  int       `json:"seconds"` // that it is still good for
	Millis   int64     `json:"ms"`      // that the exchange took
	Last     bool      `json:"last,omitempty"`
}

// actor is who acts (RFC 8693, section 4.1).
type actor struct {
	Subject string `json:"sub"`
	Actor   *actor `json:"act,omitempty"`
}

// jobFlags say how to exchange. Empty ones are the environment's.
type jobFlags struct {
	mode, tokenFile, baseURL, caFile string
	audience, scope                  string
	patience, again, last            time.Duration
}

// exchanged is an access token and what was found on the way; it is never printed.
type exchanged struct{ token string }

// runJob exchanges the job's subject token and prints for whom the access token is; with --again, over and over.
func runJob(ctx context.Context, args []string, p printer) error {
	var f jobFlags
	s := flags("job")
	f.register(s)
	s.DurationVar(&f.again, "again", 0, "how often to exchange again; 0 is once")
	s.DurationVar(&f.last, "last", 0, "with --again: exchange once more, so long after being told to stop, as for a last checkpoint")
	if err := parse(s, args); err != nil {
		return err
	}
	err := f.repeat(ctx, p)
	if err != nil || ctx.Err() == nil || f.last == 0 {
		return err
	}
	last := context.WithoutCancel(ctx)
	pause(last, f.last)
	began := time.Now()
	token, err := f.exchange(last)
	if err != nil {
		return err
	}
	return printIdentity(p, identityLine{Mode: f.mode, Last: true}, token, time.Since(began))
}

// repeat exchanges once, or over and over until told to stop.
func (f jobFlags) repeat(ctx context.Context, p printer) error {
	return until(ctx, f.again, func() (bool, error) {
		began := time.Now()
		token, err := f.exchange(ctx)
		if ctx.Err() != nil {
			return true, nil
		}
		if err == nil {
			err = printIdentity(p, identityLine{Mode: f.mode}, token, time.Since(began))
		}
		if err != nil && f.again > 0 {
			p.print(failure{Error: err.Error()})
			return false, nil
		}
		return false, err
	})
}

// registrar is what a flag.FlagSet does for strings and spans.
type registrar interface {
	StringVar(p *string, name, value, usage string)
	DurationVar(p *time.Duration, name string, value time.Duration, usage string)
}

func (f *jobFlags) register(s registrar) {
	s.StringVar(&f.mode, "mode", "sdk", "sdk, or http: from the facts on the wire, without our code")
	s.StringVar(&f.tokenFile, "token-file", os.Getenv(wire.EnvSubjectTokenFile), "the subject token")
	s.StringVar(&f.baseURL, "base-url", os.Getenv(wire.EnvBaseURL), "the platform")
	s.StringVar(&f.caFile, "ca-file", os.Getenv(wire.EnvCAFile), "what its certificate is checked against")
	s.StringVar(&f.audience, "audience", "", "what the access token is for")
	s.StringVar(&f.scope, "scope", "", "what it may do")
	s.DurationVar(&f.patience, "patience", 4*time.Minute, "how long to try")
}

// exchange gets an access token in the mode that was asked for.
func (f jobFlags) exchange(ctx context.Context) (exchanged, error) {
	ctx, cancel := context.WithTimeout(ctx, f.patience)
	defer cancel()
	switch f.mode {
	case "sdk":
		return f.bySDK(ctx)
	case "http":
		return f.byHTTP(ctx)
	default:
		return exchanged{}, fmt.Errorf("%w: --mode must be sdk or http", errUsage)
	}
}

// bySDK exchanges as a job does that imports package client.
func (f jobFlags) bySDK(ctx context.Context) (exchanged, error) {
	w, err := client.NewWorkload(client.WorkloadOptions{
		TokenFile: f.tokenFile, BaseURL: f.baseURL, CAFile: f.caFile, Audience: f.audience, Scope: f.scope, Patience: f.patience,
	})
	if err != nil {
		return exchanged{}, err
	}
	defer w.Close()
	token, err := w.TokenContext(ctx)
	if err != nil {
		return exchanged{}, err
	}
	return exchanged{token: token.AccessToken}, nil
}

// printIdentity prints what the token says, and nothing that could be presented.
func printIdentity(p printer, line identityLine, e exchanged, took time.Duration) error {
	line.Millis = took.Milliseconds()
	if err := unmarshalClaims(e.token, &line); err != nil {
		return errors.New("the access token is no token with claims")
	}
	line.Seconds = int(remaining(line.Expires).Seconds())
	p.print(line)
	return nil
}
