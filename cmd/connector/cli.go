package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/lanyard-k8s/lanyard/connector/config"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

// The environment that the chart gives the connector.
const (
	envNodeName  = "NODE_NAME"
	envNamespace = "POD_NAMESPACE"
)

// flags are what the process needs to start; everything else is in the two files.
type flags struct {
	role          string
	config        string
	settings      string
	socket        string
	listen        string
	tlsCertDir    string
	metricsListen string
	kubeconfig    string
	logLevel      string
	plaintext     bool
}

func newRoot() *cobra.Command {
	f := &flags{}
	root := &cobra.Command{
		Use:   "connector --role socket|deployment",
		Short: "Take health events in, from publishers that are who they say",
		Long: `connector takes health events from publishers, checks whose token they present and which node they may speak about, and
hands what may pass to its sinks. In the role socket it serves the publishers of its own node over a Unix socket and needs
NODE_NAME; in the role deployment it serves all nodes over TLS.

config.json says who may name which node (docs: Authentication Configuration). The settings file, whose every key may be
absent, says where accepted events go and what is bounded.`,
		Example: `  NODE_NAME=node-a connector --role socket --config /etc/config/config.json
  connector --role deployment --tls-cert-dir /etc/lanyard/tls --settings /etc/lanyard/connector.yaml
  connector check-config config.json --settings connector.yaml`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.PersistentFlags().StringVar(&f.role, "role", string(nodebinding.Socket), "socket: the publishers of one node; deployment: those of all nodes")
	root.PersistentFlags().StringVar(&f.settings, "settings", "", "settings file (YAML); without one every default applies")
	root.Flags().StringVar(&f.config, "config", "/etc/config/config.json", "configuration file (JSON)")
	root.Flags().StringVar(&f.socket, "socket", "/var/run/nvsentinel.sock", "Unix socket to serve (role socket)")
	root.Flags().StringVar(&f.listen, "listen", ":50051", "address to serve (role deployment)")
	root.Flags().StringVar(&f.tlsCertDir, "tls-cert-dir", "/etc/lanyard/tls", "directory with tls.crt and tls.key, reloaded when they change (role deployment)")
	root.Flags().StringVar(&f.metricsListen, "metrics-listen", ":2112", "address for /metrics, /healthz, /readyz and, from the loopback address, /debug/violations")
	root.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file (default: in-cluster)")
	root.Flags().StringVar(&f.logLevel, "log-level", "info", "debug, info or error")
	root.Flags().BoolVar(&f.plaintext, "insecure-plaintext-for-development", false, "serve the role deployment without TLS: tokens are then readable on the way")
	root.AddCommand(newCheckConfig(f), newQuarantine())
	return root
}

func newCheckConfig(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "check-config FILE",
		Short: "Report everything that is wrong with a configuration",
		Long: `check-config reads config.json, and the settings file if one is given, as the server would, and prints every fault with
its key. Exit code 0 means that the server would take them, 2 that there are faults. NODE_NAME need not be set.`,
		Example: "  connector check-config config.json\n  connector check-config config.json --role deployment --settings connector.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p := f.process()
			if p.NodeName == "" {
				p.NodeName = "some-node"
			}
			c, err := config.Load(p, args[0], f.settings)
			if err != nil {
				return err
			}
			for _, w := range c.Auth.Warnings {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", w)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: ok\n", args[0])
			return err
		},
	}
}

func (f *flags) process() config.Process {
	return config.Process{Role: nodebinding.Role(f.role), NodeName: os.Getenv(envNodeName)}
}
