package main

import (
	"encoding/json"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/lanyard-k8s/lanyard/connector/spool"
	"github.com/lanyard-k8s/lanyard/internal/obs"
)

// aside is one line about a record that was put aside.
type aside struct {
	File       string            `json:"file"`
	Unreadable string            `json:"unreadable,omitempty"`
	Received   *time.Time        `json:"received,omitempty"`
	Caller     string            `json:"caller,omitempty"` // empty: without a token
	Pod        string            `json:"pod,omitempty"`
	Node       string            `json:"node,omitempty"`
	Scope      string            `json:"scope,omitempty"`
	Events     []json.RawMessage `json:"events,omitempty"`
}

func newQuarantine() *cobra.Command {
	return &cobra.Command{
		Use:   "quarantine [DIRECTORY]",
		Short: "Show the batches that a node's spool has put aside",
		Long: `quarantine prints a JSON line for each batch that was put aside: the file, when it was received and from whom, and its events.
A file whose name holds a sink's is of a batch on which that sink failed again and again. Nothing is changed, and the connector
may be running. Without a directory it is /var/lib/lanyard/spool.`,
		Example: "  kubectl -n lanyard exec lanyard-connector-x7k2p -- /connector quarantine",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			directory := "/var/lib/lanyard/spool"
			if len(args) > 0 {
				directory = args[0]
			}
			kept, err := spool.Look(directory)
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), kept)
		},
	}
}

// show prints a line for each. What is in them is a publisher's, who must not steer the terminal that shows it.
func show(w io.Writer, kept []spool.Kept) error {
	for _, k := range kept {
		text, err := json.Marshal(line(k))
		if err != nil {
			return err
		}
		if _, err := w.Write(append(obs.Visible(text), '\n')); err != nil {
			return err
		}
	}
	return nil
}

// line is what a person sees of a record.
func line(k spool.Kept) aside {
	if k.Err != nil {
		return aside{File: k.File, Unreadable: k.Err.Error()}
	}
	b := k.Batch
	a := aside{File: k.File, Received: &b.Received, Caller: b.Caller.Username, Pod: b.Caller.PodName, Node: b.Caller.Node, Scope: string(b.Scope)}
	for _, e := range b.Events {
		if text, err := protojson.Marshal(e); err == nil {
			a.Events = append(a.Events, text)
		}
	}
	return a
}
