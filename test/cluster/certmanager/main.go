// Program certmanager runs cert-manager's controllers and its CA injector from cert-manager's own public packages, so that
// tests exercise the code that runs in clusters without pulling an image. It issues from self-signed and CA issuers, which
// is what Lanyard's chart asks for; ACME, Vault, Venafi, gateways and leader election are left out, and so is the
// validating webhook, whose package is internal to cert-manager.
//
// It is a module of its own, on the library versions that cert-manager is released with.
//
// Called with -kubeconfig FILE, or in a pod, it runs until it is told to stop, and writes -ready FILE once its caches are
// filled. In a pod it stands in for two programs of cert-manager's, whose chart runs them apart: -run says for which.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	// The libraries have put flags of their own into the common set.
	flags := flag.NewFlagSet("certmanager", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "path of the kubeconfig to act with (required)")
	namespace := flags.String("cluster-resource-namespace", "cert-manager", "namespace of ClusterIssuers' Secrets")
	ready := flags.String("ready", "", "path of a file to write once every cache is filled")
	part := flags.String("run", everything, "what to run: "+controllers+", "+injector+" or "+everything)
	for _, name := range foreign() {
		flags.String(name, "", "accepted from cert-manager's chart, and ignored")
	}
	_ = flags.Parse(os.Args[1:]) // ends the program by itself

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := klog.Background()
	ctrl.SetLogger(log)
	if err := run(klog.NewContext(ctx, log), *part, *kubeconfig, *namespace, *ready); err != nil {
		log.Error(err, "certmanager stopped")
		os.Exit(1)
	}
}

// The parts that -run names.
const (
	controllers = "controllers"
	injector    = "injector"
	everything  = "everything"
)

// foreign are the flags that cert-manager's chart gives its programs and that mean nothing here: there is one of each, so no
// leader is elected, and there is no ACME.
func foreign() []string {
	return []string{"v", "leader-election-namespace", "acme-http01-solver-image", "max-concurrent-challenges", "metrics-listen-address"}
}

// run runs controllers, injector or both until ctx ends or one of them cannot go on.
func run(ctx context.Context, part, kubeconfig, namespace, ready string) error {
	if kubeconfig == "" && os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return errors.New("no kubeconfig: give one by -kubeconfig FILE")
	}
	group, ctx := errgroup.WithContext(ctx)
	var synced []func(context.Context) bool
	if part != injector {
		issuing, err := startIssuing(ctx, group, kubeconfig, namespace)
		if err != nil {
			return fmt.Errorf("starting the controllers: %w", err)
		}
		synced = append(synced, issuing)
	}
	if part != controllers {
		injecting, err := startInjecting(ctx, group, kubeconfig)
		if err != nil {
			return fmt.Errorf("starting the CA injector: %w", err)
		}
		synced = append(synced, injecting)
	}
	group.Go(func() error {
		for _, filled := range synced {
			if !filled(ctx) {
				return nil
			}
		}
		if ready == "" {
			return nil
		}
		return os.WriteFile(ready, []byte("ready\n"), 0o600)
	})
	return group.Wait()
}
