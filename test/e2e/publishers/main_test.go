//go:build linux

package publishers

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// values are what the release has besides the house's: who publishes, a store on every node in which the tests look for what was
// acknowledged, and the Deployment.
const values = `
publishers: [` + listedSpace + `/` + monitor + `, ` + restrictedSpace + `/` + monitor + `, ` + crossSpace + `/` + fleetMonitor + `]
global: {platformConnectorAuth: {crossNodeServiceAccounts: ["system:serviceaccount:` + crossSpace + `:` + fleetMonitor + `"]}}
connector:
  socket:
    maxUnavailable: 1
    sinks: {store: {enabled: true}}
  deployment:
    enabled: true
    publishers: [` + restrictedSpace + `/` + monitor + `]
    sinks: {log: {enabled: true}}
`

var home = house.New(house.Options{Name: "publishers", Values: values, Prepare: prepare})

func TestMain(m *testing.M) { home.Main(m) }

// prepare makes namespaces and accounts, which the chart's RoleBindings need.
func prepare(ctx context.Context, h *house.House) error {
	for space, labels := range map[string]map[string]string{
		listedSpace: nil, crossSpace: nil, strangerSpace: nil,
		labelledSpace:   {wire.LabelPublishers: wire.PublishersEnabled},
		restrictedSpace: {"pod-security.kubernetes.io/enforce": "restricted", wire.LabelPublishers: wire.PublishersEnabled},
	} {
		if err := h.MakeNamespace(ctx, space, labels); err != nil {
			return err
		}
		for _, name := range []string{monitor, fleetMonitor} {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if _, err := h.Admin.CoreV1().ServiceAccounts(space).Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("making account %s in %s: %w", name, space, err)
			}
		}
	}
	return nil
}

// entered is the one rig, with what runs from its beginning to its end.
var entered struct {
	once sync.Once
	rig  *rig
	err  error
}

// enter returns the cluster. The first test that enters starts those who are there all the while: the publisher whose token is going
// to be rotated, and on each node one who forges.
func enter(t *testing.T) *rig {
	t.Helper()
	h := home.Enter(t)
	entered.once.Do(func() {
		r := &rig{House: h, admin: h.Admin, image: house.Workload, space: house.Namespace, near: "node1", far: "node2", since: time.Now()}
		entered.rig, entered.err = r, r.begin(context.Background())
	})
	must(t, entered.err)
	return entered.rig
}

// begin starts those who are there all the while.
func (r *rig) begin(ctx context.Context) error {
	var err error
	if r.rotated, err = r.make(ctx, r.rotating(), alwaysOn, annotated(wire.AnnotationExpiration, "600")); err != nil {
		return fmt.Errorf("starting the publisher whose token is rotated: %w", err)
	}
	r.forgers = map[string]*corev1.Pod{}
	for node, other := range map[string]string{r.near: r.far, r.far: r.near} {
		if r.forgers[node], err = r.make(ctx, r.forging(node, other), alwaysOn); err != nil {
			return fmt.Errorf("starting the forger on %s: %w", node, err)
		}
	}
	return nil
}

// cleaning is a context for what is done after a test.
func cleaning() context.Context { return context.Background() }
