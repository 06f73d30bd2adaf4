//go:build unix

package tokens

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// audience is what the tokens of the tests are for.
const audience = "platform-connector.nvsentinel.nvidia.com"

// world is the control plane that the tests share; each has its own namespace in it. They do not run in parallel: one of them
// takes the API server away.
type world struct {
	*cluster.ControlPlane
	absent error // why there is no control plane, for reasons outside the project
	config *rest.Config
	admin  *kubernetes.Clientset
	meta   metadata.Interface
}

// shared hands TestMain's control plane to the tests; nothing changes it afterwards.
var shared *world

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx := context.Background()
	cp, err := cluster.Start(ctx, cluster.Options{Out: os.Stderr})
	if errors.Is(err, program.ErrNoGo) || errors.Is(err, program.ErrNoModules) {
		shared = &world{absent: err}
		return m.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		if err := cp.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	if shared, err = newWorld(ctx, cp); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func newWorld(ctx context.Context, cp *cluster.ControlPlane) (*world, error) {
	config, err := cp.Config()
	if err != nil {
		return nil, err
	}
	w := &world{ControlPlane: cp, config: config}
	if w.admin, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if w.meta, err = metadata.NewForConfig(config); err != nil {
		return nil, err
	}
	return w, w.allow(ctx)
}
