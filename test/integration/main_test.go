//go:build unix

package integration

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/install"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

//go:embed testdata/values.yaml
var values string

// startTimeout is for the first time, when Kubernetes has to be built; it takes seconds later.
const startTimeout = 30 * time.Minute

// environment is the control plane with Lanyard on it that the tests share. It is started by the first test that asks for
// it, so that a run which needs none starts none.
type environment struct {
	once sync.Once
	cp   *cluster.ControlPlane
	in   *install.Installation
	err  error
}

var shared environment

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // controller-runtime's clients would complain that nobody has said where to
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// start starts control plane and Lanyard. Progress goes to the standard error, since no test's output is seen before its end.
func (e *environment) start() {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if e.cp, e.err = cluster.Start(ctx, cluster.Options{Out: os.Stderr}); e.err != nil {
		return
	}
	if e.err = makeListed(ctx, e.cp); e.err != nil {
		return
	}
	e.in, e.err = install.Start(ctx, e.cp, install.Options{Out: os.Stderr, Values: values, LogLevel: "debug"})
}

// makeListed makes the namespaces of the listed publishers, where the chart puts RoleBindings; namedNamespace hands them out.
func makeListed(ctx context.Context, cp *cluster.ControlPlane) error {
	var chart struct{ Publishers []string }
	if err := yaml.Unmarshal([]byte(values), &chart); err != nil {
		return fmt.Errorf("reading the values: %w", err)
	}
	config, err := cp.Config()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, publisher := range chart.Publishers {
		namespace, _, _ := strings.Cut(publisher, "/")
		space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// stop ends what was started.
func (e *environment) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	if e.in != nil {
		errs = append(errs, e.in.Stop(ctx))
	}
	if e.cp != nil {
		errs = append(errs, e.cp.Stop(ctx))
	}
	return errors.Join(errs...)
}

// env returns the shared environment. It skips the test where the programs cannot be built for reasons outside the project,
// and fails it in every other case.
func env(t *testing.T) *environment {
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
