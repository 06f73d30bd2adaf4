package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// clusterTimeout bounds each call to the API server.
const clusterTimeout = 30 * time.Second

// connect makes a client from a kubeconfig file, or from the pod's own account when none is given.
func connect(kubeconfig string) (kubernetes.Interface, error) {
	cfg, err := restConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("find cluster: %w", err)
	}
	cfg.Timeout = clusterTimeout
	cfg.UserAgent = "lanyard-webhook"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return client, nil
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}

func newUninstall(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "uninstall",
		Short: "Delete the two webhook configurations named lanyard",
		Long: `uninstall deletes the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration named lanyard, so that no
request waits for a server that is about to go. What is gone already is fine. The chart runs it before it is deleted.`,
		Example: "  webhook uninstall\n  webhook uninstall --kubeconfig ~/.kube/config",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := connect(f.kubeconfig)
			if err != nil {
				return err
			}
			return uninstall(cmd.Context(), client, cmd.OutOrStdout())
		},
	}
}

func newSelftest(f *flags) *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use:   "selftest --namespace NAMESPACE",
		Short: "Ask the API server for a good pod and a bad pod, by dry run",
		Long: `selftest creates two pods in a managed namespace by server-side dry run; nothing is stored. The good one must come back
with its creator's stamp, which shows that the webhook is called and answers; the bad one sets a variable of the platform
and must be refused. The account that runs it needs "create" on pods in the namespace, and nothing else.`,
		Example: "  webhook selftest --namespace team-a --kubeconfig ~/.kube/config",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := connect(f.kubeconfig)
			if err != nil {
				return err
			}
			return selftest(cmd.Context(), client, namespace, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "a namespace labelled lanyard.dev/jobs=managed (required)")
	if err := cmd.MarkFlagRequired("namespace"); err != nil {
		panic(err) // the flag is declared one line above
	}
	return cmd
}
