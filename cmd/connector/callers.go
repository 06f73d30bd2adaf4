package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lanyard-k8s/lanyard/connector"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/internal/liveness"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// The limits of our own clients, reviews and the looks for their pods aside, which have theirs. client-go's 5 a second have held others up for minutes.
const (
	clientQPS   = 50
	clientBurst = 100
	// A deployment writes to every node.
	deploymentQPS   = 500
	deploymentBurst = 1000
)

// findCluster makes the clients, if anything needs one.
func (p *parts) findCluster(context.Context) error {
	if !p.cfg.Auth.Enabled() && !p.cfg.Settings.Sinks.Kubernetes.Enabled {
		return nil
	}
	var err error
	if p.flags.kubeconfig == "" {
		p.cluster, err = rest.InClusterConfig()
	} else {
		p.cluster, err = clientcmd.BuildConfigFromFlags("", p.flags.kubeconfig)
	}
	if err != nil {
		return fmt.Errorf("find cluster: %w", err)
	}
	p.cluster.UserAgent, p.cluster.QPS, p.cluster.Burst = "lanyard-connector", clientQPS, clientBurst
	if p.cfg.Process.Role == nodebinding.Deployment {
		p.cluster.QPS, p.cluster.Burst = deploymentQPS, deploymentBurst
	}
	return p.makeClients()
}

// makeClients makes the clients that share the limits of the cluster's configuration, and that of the looks for pods.
func (p *parts) makeClients() error {
	var err error
	if p.client, err = kubernetes.NewForConfig(p.cluster); err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	if p.metadata, err = metadata.NewForConfig(p.cluster); err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	if p.asking, err = metadata.NewForConfig(unpaced(p.cluster)); err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	return nil
}

// unpaced is a configuration without a rate limit, for what is paced already: a look for a pod follows a review. While the watch of pods is
// silent every review looks, more often than the watches' client may ask, and the relist that restores trust would queue behind them.
func unpaced(cluster *rest.Config) *rest.Config {
	c := rest.CopyConfig(cluster)
	c.QPS, c.Burst, c.RateLimiter = -1, 0, nil
	return c
}

// identifyCallers makes what says who is calling: watches, self-test and reviewer.
func (p *parts) identifyCallers(context.Context) error {
	gauges := connector.Gauges{Ready: func() bool { return p.ready() == nil }}
	if p.cfg.Auth.Enabled() {
		if err := p.watch(); err != nil {
			return err
		}
		if err := p.review(); err != nil {
			return err
		}
		gauges.Cached, gauges.Down, gauges.Pods, gauges.Nodes = p.reviewer.Size, p.reviewer.Down, p.pods, p.nodes
	}
	if err := p.metrics.Observe(p.reg, gauges); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}

func (p *parts) watch() error {
	o := liveness.Options{Log: p.log.WithName("liveness"), Silence: p.cfg.Settings.Liveness.Silence, Asking: p.asking}
	var err error
	if p.cfg.Process.Role == nodebinding.Socket {
		if p.pods, err = liveness.NewNodePods(p.client, p.cfg.Process.NodeName, p.cfg.Settings.Liveness.Namespaces, o); err == nil {
			p.nodes, err = liveness.NewNode(p.metadata, p.cfg.Process.NodeName, o)
		}
	} else if p.pods, err = liveness.NewLabelledPods(p.metadata, o); err == nil {
		p.nodes, err = liveness.NewNodes(p.metadata, o)
	}
	if err != nil {
		return err
	}
	p.task("pods", p.pods.Run)
	p.task("nodes", p.nodes.Run)
	return nil
}

func (p *parts) review() error {
	backend, err := tokenreview.NewAPIServer(p.cluster)
	if err != nil {
		return err
	}
	files := p.cfg.Settings.SelfTest
	p.selfTest, err = connector.NewSelfTest(connector.SelfTestOptions{
		Backend: backend, Audience: p.cfg.Auth.Audience, TokenFile: files.TokenFile, APIFile: files.APITokenFile, Log: p.log,
		Passed: func() { p.reviewer.LetIn() },
	})
	if err != nil {
		return err
	}
	p.reviewer, err = tokenreview.NewReviewer(p.reviewOptions())
	if err != nil {
		return err
	}
	p.closer = append(p.closer, func() error { p.reviewer.Close(); return nil })
	p.once("self-test", p.selfTest.Run)
	p.need(p.selfTest.Check)
	return nil
}

// reviewOptions are the settings as the reviewer knows them.
func (p *parts) reviewOptions() tokenreview.Options {
	r := p.cfg.Settings.Review
	o := tokenreview.Options{
		Backend: p.selfTest, Audience: p.cfg.Auth.Audience, Reviewer: p.cluster.Host, Pods: p.pods,
		Lenient: !p.cfg.Settings.StrictLiveness, SingleAudience: r.SingleAudience,
		MaxEntries: int(r.Entries), MaxPerPod: int(r.EntriesPerPod), NegativeFor: r.Refusals,
		RefreshMin: r.RefreshLeast, RefreshMax: r.RefreshMost, FallbackEvery: r.RefreshUnwatched,
		QPS: float64(r.QPS), Burst: int(r.Burst), MaxInFlight: int(r.Concurrent), AnswerIn: r.Timeout,
		FailedBurst: int(r.FailuresBurst), FailedEvery: time.Minute / time.Duration(r.FailuresPerMinute),
		Recorder: p.metrics,
	}
	if p.cfg.Process.Role == nodebinding.Deployment {
		o.Look = p.pods.Look
	}
	if r.Refusals == 0 {
		o.NegativeFor = 1 // zero is the default there; a nanosecond is over at once
	}
	return o
}

// startPatience is how long a start waits for the watches of pods. Without it, verdicts are reviewed again more often; that is
// no reason not to serve.
const startPatience = 3 * time.Second

// awaitStart returns when callers can be served: reviews have been tried, and the watches are synced or take too long.
func (p *parts) awaitStart(ctx context.Context) {
	if p.selfTest == nil {
		return
	}
	select {
	case <-p.selfTest.Tried():
	case <-ctx.Done():
		return
	}
	limit := time.NewTimer(startPatience)
	defer limit.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !p.pods.Trusted(time.Now()) {
		select {
		case <-tick.C:
		case <-limit.C:
			p.log.Info("not every watch of pods is synced; verdicts are reviewed more often where it is not",
				"watches", p.pods.Untrusted(time.Now()), "accountIn", os.Getenv(envNamespace))
			return
		case <-ctx.Done():
			return
		}
	}
}
