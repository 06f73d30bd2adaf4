package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/api/healthevent/weight"
	"github.com/lanyard-k8s/lanyard/client"
)

const publishLong = `publish reports health events to a connector, as a publisher does: one batch, which the connector takes as a whole or
refuses as a whole.

Events come from a file or standard input as JSON (a batch, one event, or a list of events, with the field names of the
protocol), from flags, or from both: flags are then set on every event of the file. Without a time an event is given the
present one. Without a node the connector fills in the caller's own.

On a node, speak to its socket; elsewhere to a deployment, with its CA and a projected token:

  --socket PATH                    the node's connector; a token is optional there
  --address HOST:PORT --ca-file    a deployment, over TLS; a token is required

The program ends with 0 when the batch was accepted, 1 when it was refused for good, 2 when it could not be made, 3 when no
connector had accepted it within --timeout.`

const publishExample = `  # An XID error on a GPU of this node
  lanyard publish --agent gpu-monitor --component-class GPU --check GpuXidError --fatal --error-code 79 \
    --entity GPU=GPU-6b8f --message "GPU has fallen off the bus" --recommended-action RESTART_BM

  # The check is well again
  lanyard publish --agent gpu-monitor --component-class GPU --check GpuXidError --healthy

  # A batch from a file, to a deployment
  lanyard publish -f events.json --address lanyard-connector.nvsentinel.svc:50051 --ca-file ca.crt \
    --token-file /var/run/secrets/nvsentinel/platform-connector/token

  # What would be sent
  lanyard publish --check GpuXidError --fatal --dry-run`

// exitUnavailable ends publish when nobody has taken the batch in time.
const exitUnavailable = 3

// publishFlags are where to publish; what to publish is in eventFlags.
type publishFlags struct {
	socket, address string
	tokenFile       string
	caFile, server  string
	serverUser      int64
	writable        bool
	timeout         time.Duration
	file            string
	dryRun          bool
	quiet           bool
	event           eventFlags
}

func publishCommand(s streams) *cobra.Command {
	var f publishFlags
	cmd := &cobra.Command{
		Use:     "publish [-f FILE] [--check NAME ...]",
		Short:   "Report health events to a connector",
		Long:    publishLong,
		Example: publishExample,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runPublish(cmd, f, s) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.socket, "socket", "/var/run/nvsentinel.sock", "the connector's Unix `socket`")
	flags.StringVar(&f.address, "address", "", "a deployment's `host:port`, instead of the socket")
	flags.StringVar(&f.tokenFile, "token-file", os.Getenv("PLATFORM_CONNECTOR_TOKEN_PATH"), "`file` with the token to present (default: $PLATFORM_CONNECTOR_TOKEN_PATH)")
	flags.StringVar(&f.caFile, "ca-file", "", "`file` with the certificates that the deployment's is checked against (default: the system's)")
	flags.StringVar(&f.server, "server-name", "", "the `name` in the deployment's certificate (default: the address's host)")
	flags.Int64Var(&f.serverUser, "server-uid", 0, "the `user` that the socket's server must run as; -1 for any")
	flags.BoolVar(&f.writable, "allow-writable-socket-dir", false, "use a socket in a directory that this program may write to, for development")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "how long to try")
	flags.StringVarP(&f.file, "filename", "f", "", "`file` with events as JSON; - is standard input")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the batch as JSON and send nothing")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "say nothing unless it fails")
	f.event.register(cmd)
	return cmd
}

func runPublish(cmd *cobra.Command, f publishFlags, s streams) error {
	batch, err := readBatch(f, s.in, cmd.Flags().Changed)
	if err != nil {
		return err
	}
	if f.dryRun {
		return printBatch(s.out, batch)
	}
	o, err := f.options(cmd.Flags().Changed)
	if err != nil {
		return err
	}
	told := false
	o.Retrying = func(err error) {
		if !told && !f.quiet {
			complain(s.err, "not accepted yet: "+status.Convert(err).Message()+"; trying again for "+f.timeout.String())
		}
		told = true
	}
	p, err := client.NewPublisher(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	err = p.Publish(ctx, batch)
	err = errors.Join(err, p.Close(ctx))
	if err != nil {
		return f.failure(err)
	}
	if !f.quiet {
		_, err = fmt.Fprintf(s.out, "accepted: %s\n", counted(len(batch.GetEvents())))
	}
	return err
}

// counted is a number of events in words.
func counted(n int) string {
	if n == 1 {
		return "1 event"
	}
	return fmt.Sprintf("%d events", n)
}

// printBatch prints a batch as JSON that is the same every time; protojson's own spaces are not.
func printBatch(w io.Writer, batch *healtheventv1.HealthEvents) error {
	raw, err := protojson.Marshal(batch)
	if err != nil {
		return fmt.Errorf("print batch: %w", err)
	}
	var compact, indented bytes.Buffer
	if err := errors.Join(json.Compact(&compact, raw), json.Indent(&indented, compact.Bytes(), "", "  ")); err != nil {
		return fmt.Errorf("print batch: %w", err)
	}
	_, err = fmt.Fprintln(w, indented.String())
	return err
}

// options are the client's.
func (f publishFlags) options(given func(string) bool) (client.Options, error) {
	o := client.Options{
		Target: "unix://" + f.socket, TokenFile: f.tokenFile, ServerUser: f.serverUser, AllowWritableDirectory: f.writable,
		Batch: weight.Bounds{Events: math.MaxInt32, Parts: math.MaxInt32}, // the connector says what is too much for it
	}
	switch {
	case f.address != "" && given("socket"):
		return o, errors.New("--socket and --address contradict each other: give one of them")
	case f.address == "" && (f.caFile != "" || f.server != ""):
		return o, errors.New("--ca-file and --server-name are for --address; a socket takes neither")
	case f.address != "" && f.tokenFile == "":
		return o, errors.New("a deployment takes no caller without a token: give --token-file with a projected token")
	case f.timeout <= 0:
		return o, errors.New("--timeout must be positive")
	}
	if f.tokenFile != "" {
		file, err := os.Open(f.tokenFile)
		if err != nil {
			return o, fmt.Errorf("token: %w", err)
		}
		_ = file.Close()
	}
	if f.address != "" {
		o.Target, o.CAFile, o.ServerName = f.address, f.caFile, f.server
	}
	return o, nil
}

// failure turns the publisher's error into a line that says what to do, and an exit code.
func (f publishFlags) failure(err error) error {
	last := status.Convert(lastStatus(err))
	if client.Temporary(last.Err()) || last.Code() == codes.OK || errors.Is(err, context.DeadlineExceeded) {
		return codedError{exitUnavailable, fmt.Sprintf("not accepted within %s: %s; %s", f.timeout, last.Message(), f.whereToLook())}
	}
	text := "refused: " + last.Message()
	if advice := f.adviceFor(last.Code()); advice != "" {
		text += "; " + advice
	}
	return codedError{exitFound, text}
}

func (f publishFlags) whereToLook() string {
	if f.address != "" {
		return "is the deployment ready, and the address right?"
	}
	return "does a connector run on this node, and is its socket's directory mounted here?"
}

// lastStatus is the gRPC status in an error, which may stand beside others.
func lastStatus(err error) error {
	var with interface{ GRPCStatus() *status.Status }
	if errors.As(err, &with) {
		return with.GRPCStatus().Err()
	}
	return err
}

// adviceFor is what a refusal's own words cannot say: which flag to give. The connector's sentence says the rest; one code
// stands for several faults, so that a guess from the code alone would mislead.
func (f publishFlags) adviceFor(c codes.Code) string {
	switch {
	case c == codes.Unauthenticated && f.tokenFile == "":
		return "give --token-file with the token that is projected into this pod for the connector's audience"
	case c == codes.Unimplemented:
		return "what answers there is no connector"
	default:
		return ""
	}
}
