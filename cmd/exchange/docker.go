package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lanyard-k8s/lanyard/certs"
	"github.com/lanyard-k8s/lanyard/delegation/sqlite"
	"github.com/lanyard-k8s/lanyard/dockerjob"
	"github.com/lanyard-k8s/lanyard/dockerjob/jobspec"
	"github.com/lanyard-k8s/lanyard/dockerjob/socket"
	"github.com/lanyard-k8s/lanyard/exchange"
	"github.com/lanyard-k8s/lanyard/exchange/settings"
	"github.com/lanyard-k8s/lanyard/internal/private"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// containerHost is what the exchange is called in jobs' containers, where the Engine makes it the address of the bridge's gateway.
// "internal" is a domain that is nobody's.
const containerHost = "exchange.lanyard.internal"

// local are the parts that an exchange for one machine has besides.
type local struct {
	authority *certs.Local
	engine    *dockerjob.Engine
	backend   *dockerjob.Backend
	bridge    *bridge // nil where containers come by another address
}

// onDocker is the exchange for one machine: no API server anywhere, and a place where users submit.
func (p *parts) onDocker() []func(context.Context) error {
	return []func(context.Context) error{
		p.enterState, p.openKeys, p.makeRecords, p.openStore, p.certify, p.runJobs, p.openLocalDesks, p.openSubmitters, p.openRecords, p.observe,
	}
}

// enterState makes the directory that holds everything, or checks that nobody else may look into it.
func (p *parts) enterState(context.Context) error {
	dir := p.cfg.Docker.StateDirectory
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make docker.stateDirectory: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at docker.stateDirectory: %w", err)
	}
	if private.Directory(info) != "" {
		return fmt.Errorf("docker.stateDirectory %s must be a directory of mode 0700 that belongs to this program's user, and no symbolic link", dir)
	}
	return nil
}

// makeRecords makes the tables, or brings older ones up to date. It needs nobody's order here: one process on one machine uses them. A
// database that was lost is found out by its mark, as everywhere.
func (p *parts) makeRecords(ctx context.Context) error {
	return sqlite.Migrate(ctx, p.cfg.Store.Directory)
}

// runJobs makes the backend. The Engine need not be there yet.
func (p *parts) runJobs(context.Context) error {
	d := p.cfg.Docker
	var err error
	if p.local.engine, err = dockerjob.NewEngine(d.Engine); err != nil {
		return err
	}
	p.closer = append(p.closer, p.local.engine.Close)
	metrics, err := dockerjob.NewMetrics(p.reg)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	base, err := containerURL(d)
	if err != nil {
		return err
	}
	machine, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find this machine's name: %w", err)
	}
	l := d.Limits
	p.local.backend, err = dockerjob.New(dockerjob.Options{
		Engine: p.local.engine, Store: p.store, Metrics: metrics, Log: p.log.WithName("jobs"), Reached: p.reached,
		Settings: dockerjob.Settings{
			Instance: d.Instance, Cluster: machine, BaseURL: base, CA: p.local.authority.CA, MountPath: d.MountPath,
			Audiences: p.cfg.Rules.Audiences, Scopes: p.cfg.Rules.Scopes, SystemSubjects: p.cfg.Rules.SystemSubjects,
			Limits: jobspec.Limits{DefaultCPU: l.DefaultCPU, MaxCPU: l.MaxCPU, DefaultMemory: l.DefaultMemory, MaxMemory: l.MaxMemory},
			Pids:   l.PIDs, MaxJobs: int(l.AllJobs), MaxJobsEach: int(l.Jobs), Keep: l.Kept,
		},
	})
	if err != nil {
		return err
	}
	p.task("jobs", p.local.backend.Run)
	return nil
}

// containerURL is where containers reach the exchange: the configured URL, or the first address that is not this machine's own alone.
func containerURL(d settings.Docker) (string, error) {
	if d.BaseURL != "" {
		return d.BaseURL, nil
	}
	for _, address := range d.Listen {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return "", fmt.Errorf("docker.listen: %w", err)
		}
		if host == settings.BridgeHost {
			return "https://" + net.JoinHostPort(containerHost, port), nil
		}
		if ip, err := netip.ParseAddr(host); err == nil && !ip.IsLoopback() {
			return "https://" + net.JoinHostPort(host, port), nil
		}
	}
	return "", errors.New("docker.listen holds no address that containers reach")
}

// openSubmitters makes the socket at which users submit.
func (p *parts) openSubmitters(ctx context.Context) error {
	d := p.cfg.Docker
	group, err := groupID(d.Group)
	if err != nil {
		return err
	}
	metrics, err := socket.NewMetrics(p.reg)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	desk, err := socket.New(socket.Options{
		Jobs: p.local.backend, Metrics: metrics, Log: p.log.WithName("submit"), Audit: p.audit,
		Submitters: socket.Submitters{Listed: d.Submitters, Prefix: d.UserPrefix, Overflow: overflowUser(), Reserved: p.cfg.Rules.Reserved},
		Bounds:     socket.Bounds{PerUser: int(d.Limits.Connections), Total: int(d.Limits.AllConnections)},
	})
	if err != nil {
		return err
	}
	l, err := socket.Listen(ctx, d.Socket, group)
	if err != nil {
		return err
	}
	p.closer = append(p.closer, func() error { return removeSocket(d.Socket) })
	if err := p.tellCA(); err != nil {
		return errors.Join(err, l.Close())
	}
	p.task("authority's certificate", p.keepCA)
	p.task("submitters", desk.Task(l, p.cfg.Drain))
	return nil
}

// adminSocket is where admins inspect and revoke records, in the state's directory, which nobody enters but its owner and root.
const adminSocket = "admin.sock"

// openRecords makes the admins' listener. Who reaches it may do what it does, as whoever reads the database could.
func (p *parts) openRecords(ctx context.Context) error {
	who := tokenreview.Verdict{Username: "unix:" + strconv.Itoa(os.Geteuid())}
	admin, err := exchange.NewAdmin(exchange.AdminOptions{
		Local: &who, Records: p.store, Metrics: p.metrics, Log: p.log, Audit: p.audit, Revoked: p.rememberMark,
	})
	if err != nil {
		return err
	}
	path := filepath.Join(p.cfg.Docker.StateDirectory, adminSocket)
	l, err := socket.Listen(ctx, path, -1)
	if err != nil {
		return err
	}
	p.closer = append(p.closer, func() error { return removeSocket(path) })
	serve, err := exchange.Serve(l, exchange.NewServer(admin, nil, 0, p.log), p.cfg.Drain, nil, p.log)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	p.task("admin", serve)
	return nil
}

func removeSocket(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// groupID finds a group by its name or number.
func groupID(group string) (int, error) {
	if n, err := strconv.ParseUint(group, 10, 31); err == nil {
		return int(n), nil
	}
	g, err := user.LookupGroup(group)
	if err != nil {
		return 0, fmt.Errorf("docker.group: there is no group %q in /etc/group: groupadd --system %s, or name another", group, group)
	}
	return strconv.Atoi(g.Gid)
}

// overflowUser is the number that the kernel gives whom a user namespace does not map; zero where it does not say.
func overflowUser() uint32 {
	text, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// noPods refuses every service account token: this exchange knows no cluster. It is a refusal and no outage: the token is not good here,
// and never will be.
type noPods struct{}

// Review refuses.
func (noPods) Review(context.Context, string, *tokenreview.Bucket) (tokenreview.Verdict, error) {
	return tokenreview.Verdict{}, &tokenreview.Error{Reason: tokenreview.TokenInvalid, Detail: "this exchange serves Docker, and no pods"}
}

// NewBucket bounds nothing: a refusal costs nothing.
func (noPods) NewBucket() *tokenreview.Bucket { return nil }

// names are what the serving certificate is for, the bridge's address aside, which is added once it is known.
func names(d settings.Docker) ([]string, error) {
	found := []string{"localhost", "127.0.0.1", containerHost}
	for _, address := range d.Listen {
		if host, _, err := net.SplitHostPort(address); err == nil && host != settings.BridgeHost {
			found = append(found, host)
		}
	}
	if d.BaseURL != "" {
		u, err := url.Parse(d.BaseURL)
		if err != nil {
			return nil, fmt.Errorf("baseURL: %w", err)
		}
		found = append(found, u.Hostname())
	}
	return found, nil
}

// publicCA is where users of the machine find the CA certificate: beside the socket, since the state is nobody else's to read.
func publicCA(d settings.Docker) string { return filepath.Join(filepath.Dir(d.Socket), "ca.crt") }
