package nodebinding_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

// each calls f with every element.
func each[T any](f func(T), values ...T) {
	for _, v := range values {
		f(v)
	}
}

// everyRules calls f with every set of rules that differ in what the decision may depend on.
func everyRules(f func(nodebinding.Rules)) {
	each(func(role nodebinding.Role) {
		each(func(node string) {
			each(func(open bool) {
				each(func(lenient bool) {
					each(func(publishers nodebinding.Accounts) {
						f(nodebinding.Rules{
							Role: role, OwnNode: node, CrossNode: nodebinding.NewAccounts(listed), FailOpen: open,
							LenientLiveness: lenient, Publishers: publishers, RequireToken: open != lenient,
						})
					}, nil, nodebinding.NewAccounts(), nodebinding.NewAccounts(unlisted))
				}, true, false)
			}, true, false)
		}, own, "")
	}, nodebinding.Socket, nodebinding.Deployment, "")
}

// everyEvidence calls f with every kind of caller.
func everyEvidence(f func(nodebinding.Evidence)) {
	each(func(c nodebinding.Credential) { f(nodebinding.Evidence{Credential: c}) },
		0, nodebinding.CredentialAbsent, nodebinding.CredentialMalformed, nodebinding.CredentialUnusable, 99)
	for code := nodebinding.Undecided; code <= nodebinding.Unauthenticated; code++ {
		if code != nodebinding.OK {
			each(func(detail nodebinding.Reason) { f(detailed(code, detail)) },
				"", nodebinding.TokenExpired, nodebinding.PodNotLive, nodebinding.RateLimited, nodebinding.NodeMismatch)
		}
	}
	each(func(username string) {
		each(func(pod string) {
			each(func(node string) {
				each(func(uid string) {
					each(func(liveUID string) {
						f(live(verified(nodebinding.Identity{Username: username, PodUID: pod, Node: node, NodeUID: uid}), liveUID))
					}, "", ownUID, "uid-new")
				}, ownUID, "")
			}, "", own, foreign)
		}, "", "pod-uid")
	}, "", listed, unlisted)
}

// everyBatch lists batches that differ in where blank, own, foreign and missing names stand.
func everyBatch() [][]string {
	return [][]string{
		{}, {absent}, {""}, {own}, {foreign}, {"", own}, {own, foreign}, {"", foreign}, {foreign, ""}, {absent, foreign, "", absent},
		{"Node-A"}, {" "}, {own, "", own, "", foreign, "", foreign},
	}
}

// TestExhaustively compares the decision with the plain statement of the rules in plain_test.go for every combination.
func TestExhaustively(t *testing.T) {
	t.Parallel()
	count := 0
	everyRules(func(r nodebinding.Rules) {
		everyEvidence(func(e nodebinding.Evidence) {
			each(func(m nodebinding.Mode) {
				for _, names := range everyBatch() {
					count++
					if !agree(t, r, e, m, names) {
						t.FailNow()
					}
				}
			}, nodebinding.Enforce, nodebinding.Audit, nodebinding.Disabled, "")
		})
	})
	if count < 500_000 {
		t.Errorf("only %d combinations", count)
	}
}

func agree(t *testing.T, r nodebinding.Rules, e nodebinding.Evidence, m nodebinding.Mode, names []string) bool {
	t.Helper()
	want := statePlainly(r, e, m, names)
	batch := batchOf(names...)
	got := plain{outcome: nodebinding.Apply(nodebinding.Decide(r, e), m, batch), names: batch.names()}
	if want.outcome == got.outcome && strings.Join(want.names, ",") == strings.Join(got.names, ",") {
		return true
	}
	t.Errorf("rules %+v\nevidence %+v\nmode %q, names %q (-want +got):\n%s%s", r, e, m, names,
		cmp.Diff(want.outcome, got.outcome), cmp.Diff(want.names, got.names))
	return false
}
