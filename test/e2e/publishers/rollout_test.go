//go:build linux

package publishers

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// TestARollout upgrades the release twice while publishers send, as an operator does who turns the log up and down again. The first
// upgrade also takes the network policies away, the second puts them back with the API server's address in them.
func TestARollout(t *testing.T) {
	r := enter(t)
	l := r.startLoad(t, "rollout", r.near, r.far)
	tls := r.create(t, r.plainPod(restrictedSpace, "rollout-tls", monitor, r.far, "publisher", overTLS, checking, "--store-only", "--interval=50ms"))
	r.acknowledged(t, tls, 5)
	r.giveCA(t, strangerSpace)
	pod, ca := r.caller("through-a-rollout")
	stranger := r.create(t, pod, ca)
	await(t, patience, "a stranger is kept out", func() bool { return keptOut(r.attempts(t, stranger)) })

	before := r.connector(t, r.near).Name
	r.upgrade(t, "connector: {logLevel: debug}\nnetworkPolicy: {enabled: false}")
	if now := r.connector(t, r.near).Name; now == before {
		t.Error("the upgrade replaced no connector")
	}
	await(t, patience, "a stranger gets to the Deployment without the network policies", func() bool { return letIn(r.attempts(t, stranger)) })
	l.goesOn(t)
	for _, pod := range append(r.deployed(t), *r.connector(t, r.near), *r.connector(t, r.far)) {
		if out, err := r.output(t.Context(), &pod, "connector", false); err != nil || strings.Contains(out, "eyJ") {
			t.Errorf("the log of %s at level debug holds a token, or cannot be read: %v", pod.Name, err)
		}
	}

	api, err := url.Parse(r.Cluster.APIServerURL())
	must(t, err)
	r.upgrade(t, fmt.Sprintf("networkPolicy: {apiServerCIDRs: [%s/32]}", api.Hostname()))
	await(t, patience, "a stranger is kept out again", func() bool { return keptOut(r.attempts(t, stranger)) })
	l.goesOn(t)
	t.Logf("the longest that a batch was on its way through two rollouts: %s", l.check(t).Round(time100))

	taken := r.batches(t, tls)
	for _, b := range taken {
		wantTaken(t, b)
	}
	t.Logf("over TLS: %d batches, the longest took %d ms", len(taken), slowest(taken))
	r.nothingForged(t)
}

// upgrade upgrades the release and waits until every connector is ready.
func (r *rig) upgrade(t testing.TB, values string) {
	t.Helper()
	began := time.Now()
	must(t, r.Upgrade(t.Context(), house.Chart(), values))
	await(t, patience, "both nodes' connectors are ready", func() bool { return r.ready(t.Context(), r.near) && r.ready(t.Context(), r.far) })
	t.Logf("the upgrade took %s", time.Since(began).Round(time100))
}
