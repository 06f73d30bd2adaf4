package dockerjob_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/delegationtest"
	"github.com/lanyard-k8s/lanyard/delegation/sqlite"
	"github.com/lanyard-k8s/lanyard/dockerjob"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
	"github.com/lanyard-k8s/lanyard/test/docker"
)

// TestMain is also the child that a test kills in the middle of a submission.
func TestMain(m *testing.M) {
	if os.Getenv(childDir) != "" {
		os.Exit(child())
	}
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// engines is the Engine that tests share which do nothing to it. It is started by the first of them. Each backend has an instance's
// name of its own on it.
type engines struct {
	once   sync.Once
	engine *docker.Engine
	err    error
}

var shared engines

func (s *engines) stop() error {
	if s.engine == nil {
		return nil
	}
	return s.engine.Stop()
}

// sharedEngine skips the test, aloud, where there can be none.
func sharedEngine(t *testing.T) *docker.Engine {
	t.Helper()
	if why := docker.Unavailable(); why != "" {
		t.Skip(why)
	}
	shared.once.Do(func() {
		if shared.engine, shared.err = docker.Start(context.Background(), docker.Options{LiveRestore: true}); shared.err == nil {
			shared.err = shared.engine.Probe(context.Background())
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.engine
}

// rig is a backend on an Engine, with a database.
type rig struct {
	*dockerjob.Backend
	t        *testing.T
	engine   *docker.Engine
	docker   *client.Client
	store    delegation.Store
	dir      string
	settings dockerjob.Settings
	registry *prometheus.Registry
	log      *logBuffer
	clock    func() time.Time
	memory   *delegationtest.Memory // in place of the database, if set
	wrap     func(delegation.Store) delegation.Store
	reached  func(context.Context) (netip.Addr, error)
	host     string // where the backend finds the Engine, if not at its own socket
	stop     func()
}

// clock is set by hand.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Now()} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// logBuffer keeps what was logged, or what a job has said.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) add(prefix, args string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(&l.b, prefix, args)
}

// Write makes it a place for a job's output, too.
func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// settings are those of a test. Nobody reads output there unless a test does, so that ended containers need not linger.
func settings(instance string) dockerjob.Settings {
	return dockerjob.Settings{
		Instance: instance, Cluster: "test", BaseURL: "https://lanyard.internal:8443", CA: certificate, Audiences: []string{"platform"},
		Linger: time.Millisecond, Resync: 200 * time.Millisecond, Timeout: 2 * time.Minute,
	}
}

func certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("stands for one")})
}

// newRig makes a database and a backend that runs.
func newRig(t *testing.T, e *docker.Engine, change ...func(*dockerjob.Settings)) *rig {
	t.Helper()
	r := prepare(t, e, change...)
	r.start()
	return r
}

// prepare makes a rig that does not run yet.
func prepare(t *testing.T, e *docker.Engine, change ...func(*dockerjob.Settings)) *rig {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "db")
	if err := sqlite.Migrate(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	s := settings("t" + fmt.Sprint(time.Now().UnixNano()))
	for _, c := range change {
		c(&s)
	}
	c, err := e.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	r := &rig{t: t, engine: e, docker: c, dir: dir, settings: s, log: &logBuffer{}}
	t.Cleanup(func() {
		r.end()
		r.removeAll()
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
	return r
}

// open opens the database and makes the backend.
func (r *rig) open() {
	r.t.Helper()
	var store delegation.Store
	var err error
	if store = r.memory; r.memory == nil {
		if store, err = sqlite.Open(context.Background(), r.dir); err != nil {
			r.t.Fatal(err)
		}
	}
	if r.wrap != nil {
		store = r.wrap(store)
	}
	if r.host == "" {
		r.host = r.engine.Host()
	}
	engine, err := dockerjob.NewEngine(r.host)
	if err != nil {
		r.t.Fatal(err)
	}
	r.registry = prometheus.NewRegistry()
	metrics, err := dockerjob.NewMetrics(r.registry)
	if err != nil {
		r.t.Fatal(err)
	}
	r.store = store
	r.Backend, err = dockerjob.New(dockerjob.Options{
		Engine: engine, Store: store, Settings: r.settings, Metrics: metrics, Clock: r.clock, Reached: r.reached, Log: funcr.New(r.log.add, funcr.Options{Verbosity: 1}),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.stop = func() { _ = errors.Join(store.Close(), engine.Close()) }
}

// start runs the backend and waits until it takes jobs.
func (r *rig) start() {
	r.t.Helper()
	r.open()
	r.run()
	r.eventually("the backend is ready", func() bool { return r.Ready() == nil })
}

// run runs the backend.
func (r *rig) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	backend, closing := r.Backend, r.stop
	go func() { done <- backend.Run(ctx) }()
	r.stop = func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
		closing()
	}
}

// end stops the backend, as a program does that is told to.
func (r *rig) end() {
	if r.stop != nil {
		r.stop()
		r.stop = nil
	}
}

// eventually waits for something. It is the test's deadline that gives up.
func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			r.t.Fatalf("it never came about that %s; ready: %v\n%s", what, r.Ready(), r.log)
		}
	}
}

// spec is a job that the probe does.
func spec(job string, command ...string) dockerjob.Spec {
	return dockerjob.Spec{Workspace: "default", Job: job, Task: "main", Image: docker.ProbeImage, Command: command}
}

// submit submits as alice, and the job must start.
func (r *rig) submit(s dockerjob.Spec) dockerjob.Job {
	r.t.Helper()
	j, err := r.Submit(r.t.Context(), alice, s)
	if err != nil {
		r.t.Fatalf("submit %s: %v", s.Names(), err)
	}
	return j
}

const (
	alice = "unix:test:alice"
	bob   = "unix:test:bob"
)

// said runs a job to its end and returns what it said, both streams together.
func (r *rig) said(s dockerjob.Spec) string {
	r.t.Helper()
	j := r.submit(s)
	var out bytes.Buffer
	if err := r.Logs(r.t.Context(), alice, j.ID, dockerjob.LogOptions{Follow: true}, &out, &out); err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.Wait(r.t.Context(), alice, j.ID); err != nil {
		r.t.Fatal(err)
	}
	return out.String()
}

// containers lists all that this rig's instance has on the Engine.
func (r *rig) containers() []container.Summary {
	r.t.Helper()
	got, err := r.docker.ContainerList(context.Background(), client.ContainerListOptions{All: true, Filters: r.filter()})
	if err != nil {
		r.t.Fatal(err)
	}
	return got.Items
}

// volumes lists the names of its volumes.
func (r *rig) volumes() []string {
	r.t.Helper()
	got, err := r.docker.VolumeList(context.Background(), client.VolumeListOptions{Filters: r.filter()})
	if err != nil {
		r.t.Fatal(err)
	}
	var names []string
	for _, v := range got.Items {
		names = append(names, v.Name)
	}
	return names
}

func (r *rig) filter() client.Filters {
	return client.Filters{}.Add("label", "lanyard.dev/instance="+r.settings.Instance)
}

// containerOf is a job's container.
func (r *rig) containerOf(j dockerjob.Job) string { return "lanyard-" + j.ID }

// removeAll leaves the Engine as it was found.
func (r *rig) removeAll() {
	ctx := context.Background()
	if _, err := r.docker.Ping(ctx, client.PingOptions{}); err != nil {
		return // the Engine goes, and all with it
	}
	for _, c := range r.containers() {
		_, _ = r.docker.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	}
	for _, v := range r.volumes() {
		_, _ = r.docker.VolumeRemove(ctx, v, client.VolumeRemoveOptions{Force: true})
	}
}

// nothingLeft waits until the Engine has nothing of this instance, and sees that no row is live.
func (r *rig) nothingLeft() {
	r.t.Helper()
	r.eventually("containers and volumes are gone", func() bool { return len(r.containers()) == 0 && len(r.volumes()) == 0 })
	for _, state := range []delegation.RowState{delegation.Pending, delegation.Active} {
		rows, err := r.store.Rows(r.t.Context(), delegation.RowQuery{State: state})
		if err != nil || len(rows) > 0 {
			r.t.Errorf("%d rows are %s still (%v)", len(rows), state, err)
		}
	}
	open, err := r.store.Submissions(r.t.Context(), delegation.SubmissionQuery{State: delegation.Confirmed})
	if err != nil || len(open) > 0 {
		r.t.Errorf("%d submissions are open still (%v)", len(open), err)
	}
}

// proof reads a running job's proof as one who may copy files out of containers can.
func (r *rig) proof(j dockerjob.Job) string {
	r.t.Helper()
	return r.proofIn(r.containerOf(j))
}

// proofIn reads the proof that a container has mounted.
func (r *rig) proofIn(container string) string {
	r.t.Helper()
	got, err := r.docker.CopyFromContainer(r.t.Context(), container, client.CopyFromContainerOptions{SourcePath: mount + "/token"})
	if err != nil {
		r.t.Fatal(err)
	}
	defer got.Content.Close()
	files := tar.NewReader(got.Content)
	if _, err := files.Next(); err != nil {
		r.t.Fatal(err)
	}
	content, err := io.ReadAll(files)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(content)
}

// exchange asks the exchange's own core about a proof: who its token would speak for, or the reason of the refusal.
func (r *rig) exchange(token string) string {
	r.t.Helper()
	p, err := delegation.ParseProof(token)
	if err != nil {
		return err.Error()
	}
	got, err := r.store.Get(r.t.Context(), p.Name)
	if err != nil && !errors.Is(err, delegation.ErrNotFound) {
		r.t.Fatal(err)
	}
	rules := grant.Rules{
		Enabled: true, Issuer: "https://lanyard.internal/apis/auth", ClientID: "nemo-platform", Audiences: []string{"platform"}, DefaultAudience: "platform", TTL: 5 * time.Minute,
	}
	d := grant.Decide(rules, grant.Proof{Kind: delegation.Docker, Name: p.Name, Docker: p}, got.Row, got.Submission, grant.Attributes{},
		grant.Request{SubjectTokenType: grant.TokenTypeDocker, SubjectToken: token, Audience: "platform"}, time.Now())
	if d.Claims == nil {
		return string(d.Refusal.Reason)
	}
	return d.Claims.Subject + " by " + d.Claims.Actor.Subject
}

// metric reads one of the backend's series.
func (r *rig) metric(name, label string) float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (len(m.GetLabel()) == 0 || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	r.t.Fatalf("no series %s{%s}", name, label)
	return 0
}
