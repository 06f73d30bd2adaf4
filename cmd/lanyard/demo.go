//go:build unix

package main

import (
	"github.com/spf13/cobra"

	"github.com/lanyard-k8s/lanyard/demo"
)

func demoCommand(s streams) *cobra.Command {
	var exit bool
	var color string
	command := &cobra.Command{
		Use:   "demo",
		Short: "Show the main job on a real API server on this machine",
		Long: `demo builds etcd and Kubernetes' control plane from their Go modules (minutes the first time, seconds later), starts them
on the loopback address with Lanyard installed, and does what users do: a publisher's pod, a job, a job with a forged
identity, an outage. It needs the source tree and Go, no root, no cluster and no Docker, and leaves nothing running.`,
		Example: `  lanyard demo          # stays up afterwards, to look around
  lanyard demo --exit   # ends by itself`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			paint, err := newPainter(color, s.out)
			if err != nil {
				return err
			}
			if err := demo.Run(cmd.Context(), demo.Options{Out: s.out, Progress: s.err, Colour: paint.on, Exit: exit}); err != nil {
				return codedError{code: exitFound, text: "demo: " + err.Error()}
			}
			return nil
		},
	}
	command.Flags().BoolVar(&exit, "exit", false, "end after the last scene instead of staying up")
	command.Flags().StringVar(&color, "color", colorAuto, "`when` to colour what is printed: auto (on a terminal, unless NO_COLOR is set), always or never")
	return command
}
