package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lanyard-k8s/lanyard/webhook/settings"
)

// flags are what the process needs to start; everything else is in the configuration file.
type flags struct {
	config        string
	listen        string
	tlsCertDir    string
	metricsListen string
	kubeconfig    string
	logLevel      string
	drainDelay    time.Duration
}

func newRoot() *cobra.Command {
	f := &flags{}
	root := &cobra.Command{
		Use:   "webhook --config FILE",
		Short: "Answer the API server's admission reviews",
		Long: `webhook answers admission reviews for Lanyard: it projects tokens into pods that are entitled to them, and
refuses names and paths of the platform that somebody else has set. It keeps no state and calls no API.`,
		Example: `  webhook --config /etc/lanyard/webhook.yaml --tls-cert-dir /etc/lanyard/tls
  webhook --config webhook.yaml --listen 127.0.0.1:9443 --metrics-listen 127.0.0.1:8080 --drain-delay 0s --log-level debug`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), f, cmd.ErrOrStderr()) },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.PersistentFlags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file, for uninstall, sweep and selftest (default: in-cluster)")
	root.PersistentFlags().StringVar(&f.logLevel, "log-level", "info", "debug, info or error")
	root.Flags().StringVar(&f.config, "config", "/etc/lanyard/webhook.yaml", "configuration file (YAML)")
	root.Flags().StringVar(&f.listen, "listen", ":9443", "address for admission reviews (TLS)")
	root.Flags().StringVar(&f.tlsCertDir, "tls-cert-dir", "/etc/lanyard/tls", "directory with tls.crt and tls.key, reloaded when they change")
	root.Flags().StringVar(&f.metricsListen, "metrics-listen", ":8080", "address for /metrics, /healthz and /readyz (plain HTTP)")
	root.Flags().DurationVar(&f.drainDelay, "drain-delay", 10*time.Second, "how long to keep serving after SIGTERM, while endpoints drain")
	root.AddCommand(newCheckConfig(), newUninstall(f), newSweep(f), newSelftest(f))
	return root
}

func newCheckConfig() *cobra.Command {
	return &cobra.Command{
		Use:     "check-config FILE",
		Short:   "Report everything that is wrong with a configuration file",
		Long:    "check-config reads a configuration file as the server would and prints every fault with its key path. Exit code 0 means that the server would start, 2 that the file has faults.",
		Example: "  webhook check-config webhook.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := settings.Load(args[0]); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: ok\n", args[0])
			return err
		},
	}
}
