package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lanyard-k8s/lanyard/exchange/settings"
)

// backendKubernetes is the one backend of this program.
const backendKubernetes = "kubernetes"

// flags are what the process needs to start; everything else is in the configuration.
type flags struct {
	config        string
	listen        string
	tlsCertDir    string
	adminListen   string
	metricsListen string
	kubeconfig    string
	backend       string
	logLevel      string
	drainDelay    time.Duration
}

func newRoot() *cobra.Command {
	f := &flags{}
	root := &cobra.Command{
		Use:   "exchange --config FILE",
		Short: "Exchange the subject tokens of managed jobs for their submitters' access tokens",
		Long: `exchange is the OAuth 2.0 token exchange (RFC 8693) of managed jobs: a job's pod presents its projected token and gets an access
token whose subject is the person who submitted the job and whose actor is the pod's service account. It publishes its
keys and metadata, and answers gateways that ask whether a token may pass.

Without --tls-cert-dir it serves plain HTTP, and then on loopback only.`,
		Example: `  exchange --config exchange.yaml --tls-cert-dir /etc/lanyard/tls
  exchange check-config exchange.yaml
  exchange migrate --config exchange.yaml
  exchange rotate-keys --config exchange.yaml --now --revoke OLD-KEY-ID`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), f, cmd.ErrOrStderr()) },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	p := root.PersistentFlags()
	p.StringVar(&f.config, "config", "/etc/lanyard/exchange.yaml", "the configuration, a YAML file")
	p.StringVar(&f.kubeconfig, "kubeconfig", "", "how to reach the API server; empty is the pod's own account")
	p.StringVar(&f.logLevel, "log-level", "info", "debug, info or error")
	l := root.Flags()
	l.StringVar(&f.listen, "listen", ":8443", "the address of the token endpoint, the documents and the gateways' callout")
	l.StringVar(&f.tlsCertDir, "tls-cert-dir", "", "the directory of tls.crt and tls.key, which are read again when they change")
	l.StringVar(&f.adminListen, "admin-listen", "127.0.0.1:8444", "the address of the admins' listener; TLS unless it is on loopback")
	l.StringVar(&f.metricsListen, "metrics-listen", ":8080", "the address of /metrics, /healthz and /readyz")
	l.StringVar(&f.backend, "backend", backendKubernetes, "whose workloads are served: kubernetes")
	l.DurationVar(&f.drainDelay, "drain-delay", 5*time.Second, "how long to keep serving after SIGTERM, while endpoints drain")
	root.AddCommand(newCheckConfig(), newMigrate(f), newRotateKeys(f))
	return root
}

func newCheckConfig() *cobra.Command {
	return &cobra.Command{
		Use:   "check-config FILE",
		Short: "Report everything that is wrong with a configuration",
		Long: `check-config reads a configuration as the server would, and prints every fault with its key. Exit code 0 means that the server
would take it, 2 that there are faults. Neither the database nor the keys are looked at.`,
		Example: "  exchange check-config exchange.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := settings.Load(args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: ok\n", args[0])
			return err
		},
	}
}
