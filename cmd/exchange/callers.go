package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lanyard-k8s/lanyard/exchange/keys"
	"github.com/lanyard-k8s/lanyard/exchange/settings"
	"github.com/lanyard-k8s/lanyard/internal/liveness"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// The limits of our own client, reviews aside, which have theirs.
const (
	clientQPS   = 50
	clientBurst = 100
)

// restConfig says how to reach the API server.
func restConfig(kubeconfig string) (*rest.Config, error) {
	var (
		c   *rest.Config
		err error
	)
	if kubeconfig == "" {
		c, err = rest.InClusterConfig()
	} else {
		c, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("find cluster: %w", err)
	}
	c.UserAgent, c.QPS, c.Burst = "lanyard-exchange", clientQPS, clientBurst
	return c, nil
}

// findCluster makes the clients.
func (p *parts) findCluster(context.Context) error {
	var err error
	if p.cluster, err = restConfig(p.flags.kubeconfig); err != nil {
		return err
	}
	if p.client, err = kubernetes.NewForConfig(p.cluster); err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	if p.metadata, err = metadata.NewForConfig(p.cluster); err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	return nil
}

// openShelf finds the place of the keys. client is asked for only where they are in a Secret.
func openShelf(k settings.Keys, client func() (kubernetes.Interface, error)) (keys.Shelf, error) {
	if k.Directory != "" {
		return keys.NewDirectory(k.Directory)
	}
	c, err := client()
	if err != nil {
		return nil, err
	}
	return keys.NewSecret(c.CoreV1().Secrets(k.Namespace), k.Secret)
}

// openKeys fetches the keys. A key that is weak, damaged or of another kind keeps the program from starting; a shelf that cannot be
// reached does too, since the mark of the database is on it.
func (p *parts) openKeys(ctx context.Context) error {
	shelf, err := openShelf(p.cfg.Keys, func() (kubernetes.Interface, error) { return p.client, nil })
	if err != nil {
		return err
	}
	p.shelf = shelf
	p.keeper, err = keys.NewKeeper(shelf, keys.Options{
		Alg: p.cfg.Keys.Alg, Timing: p.cfg.Keys.Timing, Log: p.log.WithName("keys"), Rotated: p.metrics.Rotated,
	})
	if err != nil {
		return err
	}
	if err := p.keeper.Refresh(ctx); err != nil {
		return fmt.Errorf("fetch the signing keys: %w", err)
	}
	p.check(p.keeper.Check)
	p.task("keys", p.keeper.Run)
	return nil
}

// identifyCallers makes what says whose a subject token is, and which pods live. A pod that had ended before we began is in no watch; its
// token is as good to a review as ever, and its row stands until a leader has looked, so that it is looked for here.
func (p *parts) identifyCallers(context.Context) error {
	backend, err := tokenreview.NewAPIServer(p.cluster)
	if err != nil {
		return err
	}
	o := p.reviewOptions(p.cfg.Rules.ClientID, backend)
	if p.cfg.Review.WatchPods {
		if p.pods, err = liveness.NewLabelledPods(p.metadata, liveness.Options{Log: p.log.WithName("liveness")}); err != nil {
			return err
		}
		o.Pods, o.Look = p.pods, p.pods.Look
		p.task("pods", p.pods.Run)
	}
	o.Recorder = p.metrics
	if p.reviewer, err = tokenreview.NewReviewer(o); err != nil {
		return err
	}
	p.closer = append(p.closer, func() error { p.reviewer.Close(); return nil })
	return nil
}

func (p *parts) reviewOptions(audience string, backend tokenreview.Backend) tokenreview.Options {
	r := p.cfg.Review
	return tokenreview.Options{
		Backend: backend, Audience: audience, Reviewer: p.cluster.Host, AnswerIn: r.Timeout, QPS: float64(r.QPS), Burst: int(r.Burst),
		MaxInFlight: int(r.Concurrent), MaxEntries: int(r.Entries), FailedBurst: int(r.FailuresBurst),
		FailedEvery: time.Minute / time.Duration(r.FailuresPerMinute),
	}
}

// errNoCluster is for commands that need the API server and were not told where it is.
var errNoCluster = errors.New("the keys are in a Secret, which needs the API server; give --kubeconfig")

// shelfOf is openShelf for a command.
func shelfOf(f *flags, k settings.Keys) (keys.Shelf, error) {
	return openShelf(k, func() (kubernetes.Interface, error) {
		c, err := restConfig(f.kubeconfig)
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errNoCluster
		}
		if err != nil {
			return nil, err
		}
		return kubernetes.NewForConfig(c)
	})
}
