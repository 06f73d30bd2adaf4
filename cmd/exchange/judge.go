package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/exchange/reconcile"
	"github.com/lanyard-k8s/lanyard/exchange/settings"
)

// envPodName is this replica's name in the lease; the host's name where it is not set.
const envPodName = "POD_NAME"

// judgePods makes the reconciler, which writes the rows and wakes whoever waits for one.
func (p *parts) judgePods(context.Context) error {
	r := p.cfg.Reconcile
	if !r.Enabled() {
		p.log.Info("reconcile.policies names no file: this process judges no pods, and somebody else must write the rows", "warning", true)
		return nil
	}
	metrics, err := reconcile.NewMetrics(p.reg)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	o := reconcile.Options{
		Config: p.cluster, Store: p.store, Settings: r.Policies,
		IssuedAudience: p.cfg.Rules.DefaultAudience, Audiences: p.cfg.Rules.Audiences, Scopes: p.cfg.Rules.Scopes, Cluster: r.Cluster,
		MaxAge: r.MaxAge, HardCap: r.HardCap, Retention: r.Retention, Waker: p.room, Metrics: metrics, Log: p.log.WithName("reconcile"),
	}
	if r.Lease != "" {
		if o.Lease, err = lease(r.LeaseNamespace, r.Lease); err != nil {
			return err
		}
	}
	if r.CAConfigMap != "" {
		o.CA = &reconcile.CA{
			ConfigMap: r.CAConfigMap, Namespaces: told(r), Publishers: r.CAPublishers, Read: func() ([]byte, error) { return os.ReadFile(r.CAFile) },
		}
	}
	judge, err := reconcile.New(o)
	if err != nil {
		return err
	}
	p.task("reconciler", judge.Run)
	return nil
}

// told are the namespaces that get the certificate without a label: those of the accounts on the list of publishers, whose pods get it
// mounted beside the token, and those that the configuration names.
func told(r settings.Reconcile) []string {
	namespaces := slices.Clone(r.CANamespaces)
	if r.Policies.PublisherAudience != "" {
		for _, publisher := range r.Policies.Publishers {
			if account, err := wire.ParseAccount(publisher); err == nil {
				namespaces = append(namespaces, account.Namespace)
			}
		}
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

func lease(namespace, name string) (*reconcile.Lease, error) {
	identity := os.Getenv(envPodName)
	if identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("find this replica's name: %w", err)
		}
		identity = host
	}
	return &reconcile.Lease{Namespace: namespace, Name: name, Identity: identity}, nil
}
