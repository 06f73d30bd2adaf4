//go:build unix

package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/lanyard-k8s/lanyard/certs"
	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/process"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

const (
	webhookTimeout = 3 * time.Minute
	webhookGrace   = 5 * time.Second
	pollInterval   = 20 * time.Millisecond
	tailLines      = 15
)

// Webhook is the webhook's program as a process on the loopback address.
type Webhook struct {
	cp      *cluster.ControlPlane
	binary  string
	args    []string
	url     string
	metrics string

	mu      sync.Mutex
	process *process.Process
}

// BuildWebhook builds cmd/webhook from the source tree as it stands.
func BuildWebhook(ctx context.Context, out io.Writer) (string, error) {
	tree, err := program.Tree()
	if err != nil {
		return "", err
	}
	return program.Build(ctx, out, program.Source{Name: "webhook", Dir: tree, Package: "./cmd/webhook"})
}

// startWebhook writes the configuration and a certificate, runs the program and waits until it calls itself ready.
func startWebhook(ctx context.Context, cp *cluster.ControlPlane, binary, config, level string, authority *certs.Authority) (*Webhook, error) {
	listen, err := cp.Port()
	if err != nil {
		return nil, err
	}
	metrics, err := cp.Port()
	if err != nil {
		return nil, err
	}
	pair, err := authority.Issue(time.Now(), 7*24*time.Hour, "127.0.0.1", "localhost")
	if err != nil {
		return nil, err
	}
	dir, file := cp.Path("webhook-tls"), cp.Path("webhook.yaml")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the webhook's certificate folder: %w", err)
	}
	if err := errors.Join(pair.Write(dir), os.WriteFile(file, []byte(config), 0o600)); err != nil {
		return nil, fmt.Errorf("writing the webhook's files: %w", err)
	}
	w := &Webhook{
		cp: cp, binary: binary, url: fmt.Sprintf("https://127.0.0.1:%d", listen), metrics: fmt.Sprintf("http://127.0.0.1:%d", metrics),
		args: []string{
			"--config=" + file, "--tls-cert-dir=" + dir, "--log-level=" + level,
			fmt.Sprintf("--listen=127.0.0.1:%d", listen), fmt.Sprintf("--metrics-listen=127.0.0.1:%d", metrics),
			// There are no endpoints that would have to learn that it is going.
			"--drain-delay=0s",
		},
	}
	if err := w.Start(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

// Start runs the program, again after Stop or Kill, and waits until it is ready.
func (w *Webhook) Start(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, err := w.cp.StartProcess("webhook", w.binary, w.args...)
	if err != nil {
		return err
	}
	w.process = p
	ctx, cancel := context.WithTimeoutCause(ctx, webhookTimeout, fmt.Errorf("not ready within %s", webhookTimeout))
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !w.ready(ctx) {
		var cause error
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
			cause = context.Cause(ctx)
		case <-p.Done():
			cause = process.ErrEnded
		}
		return errors.Join(fmt.Errorf("starting the webhook: %w; its log, %s, ends with\n%s", cause, p.Log(), p.Tail(tailLines)),
			p.Stop(ctx, 0))
	}
	return nil
}

// ready asks the program whether it is.
func (w *Webhook) ready(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.metrics+"/readyz", nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
}

// Stop has the program finish what it has begun and end.
func (w *Webhook) Stop(ctx context.Context) error { return w.current().Stop(ctx, webhookGrace) }

// Kill ends the program as a power cut does.
func (w *Webhook) Kill() error { return w.current().Kill() }

// Pause stops the program in its tracks: the API server's calls are accepted and never answered.
func (w *Webhook) Pause() error { return w.current().Pause() }

// Resume lets a paused program go on.
func (w *Webhook) Resume() error { return w.current().Resume() }

// URL is where the program answers reviews; an entry's path follows.
func (w *Webhook) URL() string { return w.url }

// MetricsURL is where the program shows its metrics.
func (w *Webhook) MetricsURL() string { return w.metrics + "/metrics" }

// Log returns everything that the program has written.
func (w *Webhook) Log() (string, error) {
	content, err := os.ReadFile(w.current().Log())
	if err != nil {
		return "", fmt.Errorf("reading the webhook's log: %w", err)
	}
	return string(content), nil
}

// current is the process that was started last.
func (w *Webhook) current() *process.Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.process
}
