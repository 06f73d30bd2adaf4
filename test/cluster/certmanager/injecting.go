package main

import (
	"context"
	"errors"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	"github.com/cert-manager/cert-manager/pkg/util"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// startInjecting starts the CA injector for webhook configurations and returns what waits for its caches. API services
// and conversion webhooks are not watched: Lanyard has neither.
func startInjecting(ctx context.Context, group *errgroup.Group, kubeconfig string) (func(context.Context) bool, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	scheme, err := injectorScheme()
	if err != nil {
		return nil, err
	}
	// The injector writes by server-side apply under a field manager taken from the user agent, and without one it is
	// refused. Secrets are read live: only their metadata is watched.
	m, err := ctrl.NewManager(util.RestConfigWithUserAgent(config, "cainjector"), ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		Client:  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		return nil, err
	}
	err = cainjector.RegisterAllInjectors(ctx, m, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName:   true,
			cainjector.ValidatingWebhookConfigurationName: true,
		},
	})
	if err != nil {
		return nil, err
	}
	group.Go(func() error { return m.Start(ctx) })
	return m.GetCache().WaitForCacheSync, nil
}

// injectorScheme knows every type that the injector may read or write.
func injectorScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(
		clientscheme.AddToScheme(scheme),
		certmanager.AddToScheme(scheme),
		apiextensions.AddToScheme(scheme),
		apiregistration.AddToScheme(scheme),
	)
}
