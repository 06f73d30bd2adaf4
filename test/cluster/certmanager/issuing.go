package main

import (
	"context"
	"fmt"
	"time"

	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver" // approves every request
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"golang.org/x/sync/errgroup"
)

// workers is how many objects each controller handles at a time.
const workers = 2

// startIssuing starts every controller that the imports above have registered and returns what waits for their caches.
func startIssuing(ctx context.Context, group *errgroup.Group, kubeconfig, namespace string) (func(context.Context) bool, error) {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:       kubeconfig,
		KubernetesAPIQPS: 200, KubernetesAPIBurst: 400,
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: namespace},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	})
	if err != nil {
		return nil, err
	}
	for name, construct := range controller.Known() {
		c, err := construct(factory)
		if err != nil {
			return nil, fmt.Errorf("making controller %s: %w", name, err)
		}
		group.Go(func() error { return c.Run(workers, ctx) })
	}
	shared, err := factory.Build()
	if err != nil {
		return nil, err
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	return func(ctx context.Context) bool {
		for _, synced := range shared.SharedInformerFactory.WaitForCacheSync(ctx.Done()) {
			if !synced {
				return false
			}
		}
		for _, synced := range shared.KubeSharedInformerFactory.WaitForCacheSync(ctx.Done()) {
			if !synced {
				return false
			}
		}
		return true
	}, nil
}
