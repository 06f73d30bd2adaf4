//go:build unix

// Package house is what the tests on a whole cluster live in: real nodes with kubelets (package nodes), cert-manager, Lanyard
// installed by helm as its users install it, the namespaces and people that the tests need, and the image of program workload.
//
// A test package has one house, which the first test that enters it builds and TestMain pulls down:
//
//	var home = house.New(house.Options{Name: "jobs"})
//
//	func TestMain(m *testing.M) { home.Main(m) }
//
//	func TestAJob(t *testing.T) {
//		h := home.Enter(t)
//		...
//	}
//
// Where the machine cannot run nodes, Enter skips the test and says why. When a test fails, what is known of our pods is printed:
// their states, the events, and the ends of their logs.
package house

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// The names that every house has.
const (
	// Release is the chart's release, and Namespace where it is installed.
	Release, Namespace = "lanyard", "nvsentinel"
	// Managed is a namespace whose jobs act for their submitters, and Publishing one whose pods may ask for the publisher's role.
	Managed, Publishing = "team-a", "gpu-monitors"
	// Listed is a namespace without a label; its service account Monitor is on the chart's list of publishers.
	Listed, Monitor = "gpu-listed", "monitor"
	// Alice and Bob are people: editors of the namespaces above, by client certificates.
	Alice, Bob = "alice", "bob"
	// Workload is the image of program workload.
	Workload = "lanyard.test/workload:e2e"
)

// startTimeout is for the first time, when Kubernetes and more have to be built; it takes a minute or two later.
const startTimeout = 45 * time.Minute

// Options say what a house is to be like. The zero value is a cluster with the chart's defaults on it.
type Options struct {
	// Name tells the clusters of test packages apart that run at the same time: lower case letters.
	Name string
	// Values are added to, and win over, what DefaultValues gives; YAML.
	Values string
	// Bare leaves the chart out: Install installs it when a test asks. Everything else is there.
	Bare bool
	// Prepare is called, if not nil, before the chart is installed: for namespaces, Secrets or programs that its values need.
	Prepare func(ctx context.Context, h *House) error
}

// Plan is a house that is built when it is first entered.
type Plan struct {
	options Options
	once    sync.Once
	house   *House
	err     error
	told    atomic.Int32
}

// House is a running house.
type House struct {
	// Cluster is the cluster itself, with its nodes and its components.
	Cluster *nodes.Cluster
	// Admin is a client of the cluster's administrator.
	Admin kubernetes.Interface
	// Image is the image with our programs, "repository:tag".
	Image string

	options Options
	images  []string // tar files that are loaded
	volumes atomic.Int32
	vouched atomic.Bool // the exchange vouches for people's work
}

// New plans a house.
func New(o Options) *Plan { return &Plan{options: o} }

// Main runs a package's tests, pulls the house down and ends the process.
func (p *Plan) Main(m *testing.M) {
	code := m.Run()
	if p.house != nil {
		if err := p.house.Cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "pulling the house down:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// Enter returns the house, and builds it first if need be. It skips the test where nodes cannot run or programs cannot be built
// for reasons outside the project, and fails it when the house does not come up.
func (p *Plan) Enter(t *testing.T) *House {
	t.Helper()
	if why := nodes.Unavailable(); why != "" {
		t.Skip(why)
	}
	p.once.Do(p.build)
	if errors.Is(p.err, program.ErrNoGo) || errors.Is(p.err, program.ErrNoModules) {
		t.Skipf("no cluster to test on: %v", p.err)
	}
	if p.err != nil {
		t.Fatal(p.err)
	}
	t.Cleanup(func() {
		if t.Failed() && p.told.Add(1) <= tellAtMost {
			p.house.Tell(os.Stderr)
		}
	})
	return p.house
}

// build builds the house. Progress goes to the standard error, since no test's output is seen before its end.
func (p *Plan) build() {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	h := &House{options: p.options}
	if p.err = h.start(ctx, os.Stderr); p.err != nil && h.Cluster != nil {
		h.Tell(os.Stderr)
	}
	if h.Cluster != nil {
		p.house = h
	}
}
