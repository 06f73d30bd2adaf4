//go:build unix

// Package exchange runs cmd/exchange as a process beside a test control plane.
package exchange

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/lanyard-k8s/lanyard/certs"
	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/process"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

const (
	startTimeout = 3 * time.Minute
	stopGrace    = 25 * time.Second
	pollInterval = 20 * time.Millisecond
	tailLines    = 15
)

// Build builds the program from the source tree as it stands.
func Build(ctx context.Context, out io.Writer) (string, error) {
	tree, err := program.Tree()
	if err != nil {
		return "", err
	}
	return program.Build(ctx, out, program.Source{Name: "exchange", Dir: tree, Package: "./cmd/exchange"})
}

// Options say how to run the program.
type Options struct {
	// Name is the process's, and the replica's name in the lease.
	Name string
	// Binary is what Build has returned.
	Binary string
	// Config is the content of the configuration file.
	Config string
	// Kubeconfig is the path of the exchange's kubeconfig.
	Kubeconfig string
	// Args are added to the flags.
	Args []string
}

// Program is the exchange as a process. Its methods are not for several goroutines at once, but for those that send requests.
type Program struct {
	// URL, Admin and Metrics are where it listens: the tokens' door and the admins', and the metrics.
	URL, Admin, Metrics string
	// Client trusts its certificate.
	Client *http.Client
	// Certificates is the folder of its certificate.
	Certificates string

	cp      *cluster.ControlPlane
	options Options
	args    []string
	process *process.Process
}

// New prepares a program: ports, certificate, configuration. Start starts it.
func New(cp *cluster.ControlPlane, o Options) (*Program, error) {
	dir := cp.Path("exchange-" + o.Name)
	p := &Program{cp: cp, options: o, Certificates: filepath.Join(dir, "tls")}
	if err := os.MkdirAll(p.Certificates, 0o700); err != nil {
		return nil, fmt.Errorf("making the exchange's folder: %w", err)
	}
	pair, err := certs.SelfSigned(time.Now(), "127.0.0.1")
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "exchange.yaml")
	if err := errors.Join(pair.Write(p.Certificates), os.WriteFile(config, []byte(o.Config), 0o600)); err != nil {
		return nil, fmt.Errorf("writing the exchange's files: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pair.CA)
	p.Client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, MaxIdleConnsPerHost: 64}}
	var at [3]string
	for i := range at {
		port, err := cp.Port()
		if err != nil {
			return nil, err
		}
		at[i] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	p.URL, p.Admin, p.Metrics = "https://"+at[0], "http://"+at[1], "http://"+at[2]
	p.args = append([]string{
		"--config=" + config, "--kubeconfig=" + o.Kubeconfig, "--tls-cert-dir=" + p.Certificates, "--listen=" + at[0],
		"--admin-listen=" + at[1], "--metrics-listen=" + at[2], "--drain-delay=0s", "--log-level=debug",
	}, o.Args...)
	return p, nil
}

// Launch starts the process, again after it has ended, and waits for nothing.
func (p *Program) Launch() error {
	env, err := exec.LookPath("env")
	if err != nil {
		return fmt.Errorf("giving the exchange a name: %w", err)
	}
	p.process, err = p.cp.StartProcess("exchange-"+p.options.Name, env, append([]string{"POD_NAME=" + p.options.Name, p.options.Binary}, p.args...)...)
	return err
}

// Command runs a subcommand with the program's configuration, and returns all that it has written.
func (p *Program) Command(ctx context.Context, args ...string) (string, error) {
	all := append(args, p.args[:2]...) // the configuration and the kubeconfig
	out, err := exec.CommandContext(ctx, p.options.Binary, all...).CombinedOutput()
	return string(out), err
}

// Start starts the process and waits until it is ready.
func (p *Program) Start(ctx context.Context) error {
	if err := p.Launch(); err != nil {
		return err
	}
	return p.Await(ctx)
}

// Await waits until the program is ready.
func (p *Program) Await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready within %s", startTimeout))
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for p.Page("/readyz") != "ready\n" {
		var cause error
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
			cause = context.Cause(ctx)
		case <-p.process.Done():
			cause = process.ErrEnded
		}
		return fmt.Errorf("starting the exchange: %w; its log, %s, ends with\n%s", cause, p.process.Log(), p.process.Tail(tailLines))
	}
	return nil
}

// Page is a page of the metrics listener; empty if there is none.
func (p *Program) Page(path string) string {
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get(p.Metrics + path)
	if err != nil {
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	return string(body)
}

// Metric is the value of a series, as it is written, such as lanyard_exchange_leader; empty if there is none.
func (p *Program) Metric(series string) string {
	for line := range strings.SplitSeq(p.Page("/metrics"), "\n") {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return value
		}
	}
	return ""
}

// Name is the replica's.
func (p *Program) Name() string { return p.options.Name }

// Process is the running process.
func (p *Program) Process() *process.Process { return p.process }

// Log is everything that it has written, over all of its starts.
func (p *Program) Log() (string, error) {
	content, err := os.ReadFile(p.process.Log())
	if err != nil {
		return "", fmt.Errorf("reading the exchange's log: %w", err)
	}
	return string(content), nil
}

// Stop ends the process as SIGTERM does; one that was never started, or has ended, is no fault.
func (p *Program) Stop(ctx context.Context) error {
	p.Client.CloseIdleConnections()
	if p.process == nil {
		return nil
	}
	return p.process.Stop(ctx, stopGrace)
}
