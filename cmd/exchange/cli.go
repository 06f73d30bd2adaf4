package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lanyard-k8s/lanyard/exchange/settings"
)

// The backends: whose workloads are served.
const (
	backendKubernetes = "kubernetes"
	backendDocker     = "docker"
)

// The defaults of flags whose value means something else, or nothing, beside docker.
const (
	metricsEverywhere = ":8080"
	metricsHere       = "127.0.0.1:8080"
	drainDelay        = 5 * time.Second
)

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
	given         func(flag string) bool
}

// fit checks that the command line and the configuration speak of the same backend, and fills in what differs between the two.
func (f *flags) fit(docker bool) error {
	switch {
	case f.backend != backendKubernetes && f.backend != backendDocker:
		return fmt.Errorf("--backend must be %s or %s", backendKubernetes, backendDocker)
	case f.backend == backendDocker && !docker:
		return errors.New("--backend docker needs section docker in the configuration; docs/docker.md has one to start with")
	case f.backend == backendKubernetes && docker:
		return errors.New("the configuration has section docker: give --backend docker, or remove it")
	case !docker:
		return nil
	}
	for flag, instead := range map[string]string{
		"listen": "docker.listen in the configuration says where", "tls-cert-dir": "the certificates are made, below docker.stateDirectory",
		"admin-listen": "admins use admin.sock in docker.stateDirectory", "kubeconfig": "there is no cluster",
	} {
		if f.given(flag) {
			return fmt.Errorf("--%s means nothing beside --backend docker: %s", flag, instead)
		}
	}
	if !f.given("metrics-listen") {
		f.metricsListen = metricsHere
	}
	if !f.given("drain-delay") {
		f.drainDelay = 0 // there are no endpoints that have to learn of it
	}
	return nil
}

func newRoot() *cobra.Command {
	f := &flags{}
	root := &cobra.Command{
		Use:   "exchange --config FILE",
		Short: "Exchange the subject tokens of managed jobs for their submitters' access tokens",
		Long: `exchange is the OAuth 2.0 token exchange (RFC 8693) of managed jobs: a job's pod presents its projected token and gets an access
token whose subject is the person who submitted the job and whose actor is the pod's service account. It publishes its
keys and metadata, and answers gateways that ask whether a token may pass.

Without --tls-cert-dir it serves plain HTTP, and then on loopback only.

With --backend docker it runs jobs on this machine instead, as containers of a Docker Engine, for users who submit them at a
Unix socket (lanyard run). It needs no cluster, and makes its certificates itself.`,
		Example: `  exchange --config exchange.yaml --tls-cert-dir /etc/lanyard/tls
  exchange --backend docker --config /etc/lanyard/exchange.yaml
  exchange check-config exchange.yaml
  exchange migrate --config exchange.yaml
  exchange rotate-keys --config exchange.yaml --now --revoke OLD-KEY-ID`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.given = cmd.Flags().Changed
			return serve(cmd.Context(), f, cmd.ErrOrStderr())
		},
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
	l.StringVar(&f.metricsListen, "metrics-listen", metricsEverywhere, "the address of /metrics, /healthz and /readyz; beside docker "+metricsHere)
	l.StringVar(&f.backend, "backend", backendKubernetes, "whose workloads are served: kubernetes, or docker for this machine's")
	l.DurationVar(&f.drainDelay, "drain-delay", drainDelay, "how long to keep serving after SIGTERM, while endpoints drain; beside docker 0")
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
