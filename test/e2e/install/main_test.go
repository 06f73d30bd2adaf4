//go:build unix

// Package install installs, upgrades and removes Lanyard as its users do, on a cluster with real nodes and cert-manager, while
// people submit work and publishers report: what is promised is that no call of admission fails and no acknowledged event is lost.
//
// Its tests run in the order in which they stand in their files' names; each brings the release into the state that it needs.
package install

import (
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

var home = house.New(house.Options{Name: "install", Bare: true})

func TestMain(m *testing.M) { home.Main(m) }

// everything are values by which every server of ours runs, and events are kept where a test can read them.
const everything = `
exchange: {replicas: 1}
connector:
  socket: {sinks: {store: {enabled: true}}}
  deployment: {enabled: true, publishers: [` + house.Listed + `/` + house.Monitor + `]}
`

// installed says whether the release is there.
func installed(t *testing.T, h *house.House) bool {
	t.Helper()
	list, err := h.Admin.CoreV1().Secrets(house.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm,name=" + house.Release})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Items) > 0
}

// mustInstall installs this tree's chart, if no release is there, with values.
func mustInstall(t *testing.T, h *house.House, values string) {
	t.Helper()
	var err error
	began := time.Now()
	if installed(t, h) {
		err = h.Upgrade(t.Context(), house.Chart(), values)
	} else {
		err = h.Install(t.Context(), house.Chart(), values)
	}
	if err = errors.Join(err, h.Label(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Logf("installed and ready after %s", time.Since(began).Round(time.Second))
}

// atLeast is an error as long as there are too few of something.
func atLeast(have, want int) error {
	if have < want {
		return fmt.Errorf("there are %d of %d", have, want)
	}
	return nil
}
