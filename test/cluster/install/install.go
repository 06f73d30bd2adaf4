//go:build unix

// Package install puts Lanyard onto a test control plane: the chart's objects as helm renders them, and the webhook as a
// process beside the API server, with the configuration that the chart's ConfigMap holds. So chart and program are tested
// together, short of what only a node could do.
package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-k8s/lanyard/certs"
	"github.com/lanyard-k8s/lanyard/test/cluster"
)

// release is the name that the chart is installed under.
const release = "lanyard"

// Options say how to install. The zero value installs the chart with its defaults.
type Options struct {
	// Out is told what is being waited for; nil is silence.
	Out io.Writer
	// Namespace is the release's namespace, "lanyard-system" if empty.
	Namespace string
	// Values are the chart's values, in YAML.
	Values string
	// LogLevel is the webhook's, "info" if empty.
	LogLevel string
}

// Installation is Lanyard on a control plane.
type Installation struct {
	options Options
	cp      *cluster.ControlPlane
	client  client.Client
	objects Objects
	webhook *Webhook
}

// Start renders the chart, runs the webhook, and applies policies and webhook configurations in this order. When it returns,
// every one of them is in force. Whoever starts it stops it before the control plane.
func Start(ctx context.Context, cp *cluster.ControlPlane, options Options) (*Installation, error) {
	if options.Out == nil {
		options.Out = io.Discard
	}
	if options.Namespace == "" {
		options.Namespace = "lanyard-system"
	}
	if options.LogLevel == "" {
		options.LogLevel = "info"
	}
	c, err := newClient(cp)
	if err != nil {
		return nil, err
	}
	in := &Installation{options: options, cp: cp, client: c}
	if err := in.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("installing Lanyard: %w", err), in.Stop(ctx))
	}
	return in, nil
}

// start does what Start does once there is something to stop.
func (in *Installation) start(ctx context.Context) error {
	helm, err := BuildHelm(ctx, in.options.Out)
	if err != nil {
		return err
	}
	binary, err := BuildWebhook(ctx, in.options.Out)
	if err != nil {
		return err
	}
	begin := time.Now()
	authority, err := certs.NewAuthority("lanyard-test", begin, 7*24*time.Hour)
	if err != nil {
		return err
	}
	if in.objects, err = Render(ctx, helm, in.cp.Version(), in.options.Namespace, in.options.Values, authority.CA()); err != nil {
		return err
	}
	config, err := in.objects.WebhookConfig()
	if err != nil {
		return err
	}
	if in.webhook, err = startWebhook(ctx, in.cp, binary, config, in.options.LogLevel, authority); err != nil {
		return err
	}
	if err := in.objects.Redirect(in.webhook.URL(), authority.CA()); err != nil {
		return err
	}
	if err := in.makeNamespace(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{in.applyOthers, in.ApplyPolicies, in.ApplyWebhooks} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintf(in.options.Out, "Lanyard in force after %s\n", time.Since(begin).Round(100*time.Millisecond))
	return nil
}

// Webhook is the webhook's process.
func (in *Installation) Webhook() *Webhook { return in.webhook }

// Objects are the objects that the chart has rendered and that are applied.
func (in *Installation) Objects() Objects { return in.objects }

// Namespace is the release's namespace.
func (in *Installation) Namespace() string { return in.options.Namespace }

// Stop ends the webhook. What is on the control plane stays, as it does when a webhook's last replica dies.
func (in *Installation) Stop(ctx context.Context) error {
	if in.webhook == nil {
		return nil
	}
	return in.webhook.Stop(ctx)
}
