package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/client"
)

// attemptLine is one call and its answer, to the word.
type attemptLine struct {
	N       int    `json:"n"`
	As      string `json:"as"`
	ID      string `json:"id"`
	Code    string `json:"code"`
	Message string `json:"message,omitempty"`
	Reason  string `json:"reason,omitempty"` // of the ErrorInfo
	Domain  string `json:"domain,omitempty"`
	Millis  int64  `json:"ms"`
	Unix    int64  `json:"unix"` // milliseconds, when the answer came
}

// attemptFlags say what is tried.
type attemptFlags struct {
	publisherFlags
	as, waitFor string
	timeout     time.Duration
}

// runAttempt calls a connector once after the other and repeats nothing, as somebody who is curious what the answers are: with the
// pod's own token, without any, and with tokens that it has forged out of its own. It ends with 0 whatever the answers.
func runAttempt(ctx context.Context, args []string, p printer) error {
	f, err := parseAttempt(args)
	if err != nil {
		return err
	}
	for f.waitFor != "" && !exists(f.waitFor) {
		if !pause(ctx, 50*time.Millisecond) {
			return nil
		}
	}
	conn, err := f.dial()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	connector, kinds, answers := healtheventv1.NewPlatformConnectorClient(conn), strings.Split(f.as, ","), map[string]int{}
	for n := 1; f.count == 0 || n <= f.count; n++ {
		line, err := f.attempt(ctx, connector, n, kinds[(n-1)%len(kinds)])
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			break
		}
		p.print(line)
		answers[line.Code]++
		if !pause(ctx, f.interval) {
			break
		}
	}
	p.print(map[string]any{"answers": answers})
	return nil
}

func parseAttempt(args []string) (attemptFlags, error) {
	var f attemptFlags
	s := flags("attempt")
	s.StringVar(&f.options.Target, "target", "unix:///var/run/nvsentinel/nvsentinel.sock", "socket or host:port")
	s.StringVar(&f.options.TokenFile, "token-file", os.Getenv(wire.EnvPublisherTokenPath), "the pod's own token")
	s.StringVar(&f.options.CAFile, "ca-file", "", "what a deployment's certificate is checked against")
	s.StringVar(&f.as, "as", "own", "own, none, tampered, renamed, unsigned, garbage or twice; several by commas, one after the other")
	s.StringVar(&f.waitFor, "wait-for", "", "a file that must be there before anything is tried")
	s.StringVar(&f.prefix, "id", hostname(), "what the events' ids begin with")
	s.StringVar(&f.node, "node", "", "the node that the events name, and renamed tokens")
	s.StringVar(&f.check, "check", "AttemptCheck", "the events' check")
	s.BoolVar(&f.fatal, "fatal", false, "the events are fatal")
	s.IntVar(&f.count, "count", 0, "calls; 0 is until told to stop")
	s.DurationVar(&f.interval, "interval", time.Second, "pause between two calls")
	s.DurationVar(&f.timeout, "timeout", 5*time.Second, "what a call may take")
	if err := parse(s, args); err != nil {
		return f, err
	}
	f.agent, f.class, f.message, f.events = "workload", "GPU", "attempted by a test", 1
	for kind := range strings.SplitSeq(f.as, ",") {
		if _, err := f.headers(kind, "a.e30.c"); err != nil {
			return f, err
		}
	}
	return f, nil
}

// attempt calls once. Its error is about this program, never about the answer.
func (f attemptFlags) attempt(ctx context.Context, connector healtheventv1.PlatformConnectorClient, n int, kind string) (attemptLine, error) {
	token := ""
	if f.options.TokenFile != "" {
		var err error
		if token, err = readToken(f.options.TokenFile); err != nil {
			return attemptLine{}, err
		}
	}
	headers, err := f.headers(kind, token)
	if err != nil {
		return attemptLine{}, err
	}
	trying, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	trying = metadata.AppendToOutgoingContext(trying, append(headers, "idempotency-key", rand.Text())...)
	began, batch := time.Now(), f.batch(n)
	_, err = connector.HealthEventOccurredV1(trying, batch)
	said := status.Convert(err)
	line := attemptLine{
		N: n, As: kind, ID: batch.GetEvents()[0].GetId(), Code: codes.Code(said.Code()).String(), Message: said.Message(),
		Millis: time.Since(began).Milliseconds(), Unix: time.Now().UnixMilli(),
	}
	for _, d := range said.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			line.Reason, line.Domain = info.GetReason(), info.GetDomain()
		}
	}
	return line, nil
}

// headers are the metadata of a kind of call.
func (f attemptFlags) headers(kind, token string) ([]string, error) {
	bearer := func(t string) []string { return []string{"authorization", "Bearer " + t} }
	parts := strings.Split(token, ".")
	if kind != "none" && kind != "garbage" && len(parts) != 3 {
		return nil, errors.New("reading the token: it has not three parts")
	}
	switch kind {
	case "own":
		return bearer(token), nil
	case "none":
		return nil, nil
	case "tampered": // the signature of another token
		return bearer(parts[0] + "." + parts[1] + "." + turned(parts[2])), nil
	case "renamed": // another node in the claims
		return bearer(parts[0] + "." + f.renamed(parts[1]) + "." + parts[2]), nil
	case "unsigned":
		return bearer(base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + f.renamed(parts[1]) + ".AA"), nil
	case "garbage":
		return bearer("let me in"), nil
	case "twice":
		return append(bearer(token), bearer(token)...), nil
	default:
		return nil, fmt.Errorf("%w: --as=%s is none of own, none, tampered, renamed, unsigned, garbage, twice", errUsage, kind)
	}
}

// turned is a text with its first byte changed.
func turned(s string) string {
	if strings.HasPrefix(s, "A") {
		return "B" + s[1:]
	}
	return "A" + s[1:]
}

// renamed are the claims with the node that the events name in them; what is no claims is left as it is.
func (f attemptFlags) renamed(payload string) string {
	raw, err := base64.RawURLEncoding.DecodeString(payload)
	var claims map[string]any
	if err != nil || json.Unmarshal(raw, &claims) != nil {
		return payload
	}
	if bound, ok := claims["kubernetes.io"].(map[string]any); ok {
		bound["node"] = map[string]any{"name": f.node, "uid": rand.Text()}
	}
	if raw, err = json.Marshal(claims); err != nil {
		return payload
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// dial connects as publishers do, and tries again soon after a failure.
func (f attemptFlags) dial() (*grpc.ClientConn, error) {
	transport, target := client.SocketCredentials(client.AnyUser), f.options.Target
	if !strings.HasPrefix(target, "unix:") {
		config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
		pem, err := os.ReadFile(f.options.CAFile)
		if err != nil {
			return nil, fmt.Errorf("CA certificate: %w", err)
		}
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("CA certificate: the file holds none")
		}
		transport, target = credentials.NewTLS(config), "dns:///"+target
	}
	soon := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 500 * time.Millisecond}
	return grpc.NewClient(target, grpc.WithTransportCredentials(transport), grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: soon, MinConnectTimeout: f.timeout}))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
