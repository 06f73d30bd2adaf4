//go:build unix

package redteam

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/exchange"
	"github.com/lanyard-k8s/lanyard/test/cluster/install"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// The users. The attacker is an editor of every namespace below; the provisioner may write namespaces, as self-service
// portals do, and is no platform admin; the bystander is another editor of the managed namespace.
const (
	attacker    = "mallory"
	provisioner = "portal"
	bystander   = "alice"
	helper      = "system:serviceaccount:red-managed:helper" // an account that the attacker may act as
)

// The namespaces, by what they are labelled.
const (
	managed    = "red-managed"
	plain      = "red-plain"
	publishing = "red-publishing"
	both       = "red-both"     // managed and publishing
	listed     = "red-listed"   // its account "monitor" is a listed publisher
	baseline   = "red-baseline" // managed, and Pod Security enforces "baseline"
	untouched  = "red-untouched"
)

// spaces are the namespaces with their labels, but the untouched one, which is older than Lanyard.
func spaces() map[string]map[string]string {
	return map[string]map[string]string{
		managed:    {"lanyard.dev/jobs": "managed"},
		plain:      nil,
		publishing: {"lanyard.dev/publishers": "enabled"},
		both:       {"lanyard.dev/jobs": "managed", "lanyard.dev/publishers": "enabled"},
		listed:     nil,
		baseline:   {"lanyard.dev/jobs": "managed", "pod-security.kubernetes.io/enforce": "baseline"},
	}
}

// values are what the chart is installed with.
const values = `
publishers: [red-listed/monitor]
allowedSubmitterServiceAccounts: ["system:serviceaccount:red-plain:submitter"]
admission:
  tokenRequesters: ["system:serviceaccount:red-plain:broker"]
  extraTemplates: [{group: red.example.com, resource: trainings}]
webhook: {timeoutSeconds: 10}
`

// world is the control plane with Lanyard on it, and who acts there.
type world struct {
	once    sync.Once
	cp      *cluster.ControlPlane
	in      *install.Installation
	err     error
	before  journal // what the untouched namespace answered before the installation
	clients sync.Map

	exchange struct { // for the attacks of the list X
		once    sync.Once
		err     error
		program *exchange.Program
		dir     string
	}
}

var shared world

func TestMain(m *testing.M) {
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func (w *world) start() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	if w.cp, w.err = cluster.Start(ctx, cluster.Options{Out: os.Stderr}); w.err != nil {
		return
	}
	if w.before, w.err = w.live(ctx, "before"); w.err != nil {
		return
	}
	if w.err = w.makeSpaces(ctx); w.err != nil {
		return
	}
	if w.in, w.err = install.Start(ctx, w.cp, install.Options{Out: os.Stderr, Values: values, LogLevel: "debug"}); w.err != nil {
		return
	}
	w.err = w.furnish(ctx)
}

func (w *world) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	if w.exchange.program != nil {
		errs = append(errs, w.exchange.program.Stop(ctx))
	}
	if w.in != nil {
		errs = append(errs, w.in.Stop(ctx))
	}
	if w.cp != nil {
		errs = append(errs, w.cp.Stop(ctx))
	}
	return errors.Join(errs...)
}

// redteam returns the shared world. It skips the test where the programs cannot be built for reasons outside the project.
func redteam(t *testing.T) *world {
	t.Helper()
	shared.once.Do(shared.start)
	if errors.Is(shared.err, program.ErrNoGo) || errors.Is(shared.err, program.ErrNoModules) {
		t.Skipf("no control plane to test on: %v", shared.err)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return &shared
}

// makeSpaces makes the namespaces. The chart makes objects in that of a listed publisher, so they come before it.
func (w *world) makeSpaces(ctx context.Context) error {
	for name, labels := range spaces() {
		a := w.root().do(ctx, http.MethodPost, "/api/v1/namespaces", object{"metadata": object{"name": name, "labels": labels}})
		if a.code != http.StatusCreated {
			return fmt.Errorf("making namespace %s: %s", name, a.message)
		}
	}
	return nil
}

// furnish makes accounts and grants.
func (w *world) furnish(ctx context.Context) error {
	root := w.root()
	for name := range spaces() {
		if err := w.cp.AwaitServiceAccount(ctx, name); err != nil {
			return err
		}
		if err := w.grant(ctx, name, "edit", attacker); err != nil {
			return err
		}
	}
	for _, account := range []string{listed + "/monitor", plain + "/submitter", plain + "/broker", managed + "/helper"} {
		if err := root.account(ctx, account); err != nil {
			return err
		}
	}
	for _, user := range []string{bystander, helper} {
		if err := w.grant(ctx, managed, "edit", user); err != nil {
			return err
		}
	}
	for _, o := range provisionerRole() {
		if a := root.do(ctx, http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/"+o.path, o.body); a.code != http.StatusCreated {
			return fmt.Errorf("making %s: %s", o.path, a.message)
		}
	}
	return w.awaitRights(ctx)
}
