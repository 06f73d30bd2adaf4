package nodebinding_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

func lenient(r nodebinding.Rules) nodebinding.Rules {
	r.LenientLiveness = true
	return r
}

func publishers(r nodebinding.Rules, names ...string) nodebinding.Rules {
	r.Publishers = nodebinding.NewAccounts(names...)
	return r
}

// TestBeyondTheSeed covers Lanyard's own reasons and the switch that turns them off.
func TestBeyondTheSeed(t *testing.T) {
	t.Parallel()
	const (
		u, pd   = nodebinding.Unauthenticated, nodebinding.PermissionDenied
		nl, cn  = nodebinding.NodeLocal, nodebinding.CrossNode
		yes, no = nodebinding.ClaimVerified, nodebinding.ClaimAbsent
	)
	s, d := socket(), deployment()
	nameOnly := verified(nodebinding.Identity{Username: unlisted, PodUID: "p", Node: own})
	check(t, map[string]row{
		"a node made anew":                          {s, "", live(bound(unlisted, own), "uid-new"), []string{own}, refused(pd, nodebinding.NodeUIDMismatch, ""), nil},
		"a node made anew, listed, deployment":      {d, "", live(bound(listed, own), "uid-new"), []string{own}, refused(pd, nodebinding.NodeUIDMismatch, ""), nil},
		"a node made anew, in audit":                {s, nodebinding.Audit, live(bound(unlisted, own), "uid-new"), []string{""}, audited(nodebinding.NodeUIDMismatch, "", -1, 1), []string{own}},
		"a node made anew, lenient":                 {lenient(s), "", live(bound(unlisted, own), "uid-new"), []string{own}, passes(nl, yes, 0), nil},
		"the node that the token was issued on":     {s, "", live(bound(unlisted, own), ownUID), []string{own}, passes(nl, yes, 0), nil},
		"a claim without a UID on a known node":     {s, "", live(nameOnly, ownUID), []string{own}, refused(pd, nodebinding.NodeUIDMismatch, ""), nil},
		"a claim without a UID on an unknown node":  {s, "", nameOnly, []string{own}, passes(nl, yes, 0), nil},
		"another node goes before a node made anew": {s, "", live(bound(unlisted, foreign), "uid-new"), []string{own}, refused(pd, nodebinding.NodeClaimMismatch, ""), nil},
		"a dead pod":                                    {s, "", detailed(u, nodebinding.PodNotLive), []string{own}, refused(u, nodebinding.PodNotLive, ""), nil},
		"a dead pod, lenient":                           {lenient(s), "", detailed(u, nodebinding.PodNotLive), []string{own}, refused(u, nodebinding.TokenInvalid, ""), nil},
		"an expired token":                              {s, "", detailed(u, nodebinding.TokenExpired), []string{own}, refused(u, nodebinding.TokenExpired, ""), nil},
		"an expired token, lenient":                     {lenient(s), "", detailed(u, nodebinding.TokenExpired), []string{own}, refused(u, nodebinding.TokenInvalid, ""), nil},
		"a detail that does not fit is ignored":         {s, "", detailed(u, nodebinding.RateLimited), []string{own}, refused(u, nodebinding.TokenInvalid, ""), nil},
		"a detail of a token that was accepted":         {s, "", detailedBy(bound(unlisted, own), nodebinding.TokenExpired), []string{own}, passes(nl, yes, 0), nil},
		"too many failures":                             {s, "", detailed(nodebinding.Unavailable, nodebinding.RateLimited), []string{own}, with(refused(nodebinding.Unavailable, nodebinding.RateLimited, ""), outage), nil},
		"too many failures earn no degraded scope":      {failOpen(), "", detailed(nodebinding.Unavailable, nodebinding.RateLimited), []string{own}, with(refused(nodebinding.Unavailable, nodebinding.RateLimited, ""), outage), nil},
		"too many failures, lenient":                    {lenient(s), "", detailed(nodebinding.Unavailable, nodebinding.RateLimited), []string{own}, with(refused(nodebinding.Unavailable, nodebinding.ValidatorUnavailable, ""), outage), nil},
		"a deployment's publisher":                      {publishers(d, unlisted), "", bound(unlisted, own), []string{own}, passes(nl, yes, 0), nil},
		"not one of the deployment's publishers":        {publishers(d, "system:serviceaccount:a:b"), "", bound(unlisted, own), []string{own}, refused(pd, nodebinding.PublisherNotListed, ""), nil},
		"an empty list of publishers":                   {publishers(d), "", bound(unlisted, own), []string{own}, refused(pd, nodebinding.PublisherNotListed, ""), nil},
		"a listed caller need not be a publisher":       {publishers(d), "", bound(listed, own), []string{foreign}, passes(cn, yes, 0), nil},
		"what a token lacks goes before the publishers": {publishers(d), "", unbound(unlisted), []string{own}, refused(pd, nodebinding.UnboundToken, no), nil},
		"publishers mean nothing on a socket":           {publishers(s), "", bound(unlisted, own), []string{own}, passes(nl, yes, 0), nil},
	})
}

func detailedBy(e nodebinding.Evidence, detail nodebinding.Reason) nodebinding.Evidence {
	e.Detail = detail
	return e
}

// TestNothingIsDecidedByZeroValues feeds every kind of half-made input, in every mode.
func TestNothingIsDecidedByZeroValues(t *testing.T) {
	t.Parallel()
	granted := nodebinding.Decision{Role: nodebinding.Socket, Scope: nodebinding.NodeLocal, Code: nodebinding.OK, Node: own}
	without := func(change func(*nodebinding.Decision)) nodebinding.Decision {
		d := granted
		change(&d)
		return d
	}
	for name, d := range map[string]nodebinding.Decision{
		"the zero decision":             {},
		"a role alone":                  {Role: nodebinding.Socket},
		"no rules":                      nodebinding.Decide(nodebinding.Rules{}, bound(listed, own)),
		"no evidence":                   nodebinding.Decide(socket(), nodebinding.Evidence{}),
		"a socket without a node":       nodebinding.Decide(nodebinding.Rules{Role: nodebinding.Socket}, noToken()),
		"a role that does not exist":    nodebinding.Decide(nodebinding.Rules{Role: "both", OwnNode: own}, noToken()),
		"a grant without a node":        without(func(d *nodebinding.Decision) { d.Node = "" }),
		"a grant without a code":        without(func(d *nodebinding.Decision) { d.Code = nodebinding.Undecided }),
		"a code without a grant":        without(func(d *nodebinding.Decision) { d.Scope = "" }),
		"a scope that does not exist":   without(func(d *nodebinding.Decision) { d.Scope = "all" }),
		"a guess that crosses nodes":    without(func(d *nodebinding.Decision) { d.Scope, d.Degraded = nodebinding.CrossNode, true }),
		"a refusal that says no reason": without(func(d *nodebinding.Decision) { d.Scope, d.Code = "", nodebinding.PermissionDenied }),
	} {
		for _, mode := range []nodebinding.Mode{"", nodebinding.Enforce, nodebinding.Audit, "Audit"} {
			t.Run(name+" in mode "+string(mode), func(t *testing.T) {
				t.Parallel()
				batch := batchOf("", own)
				want := nodebinding.Outcome{Code: nodebinding.Internal, Event: -1}
				if diff := cmp.Diff(want, nodebinding.Apply(d, mode, batch)); diff != "" {
					t.Errorf("outcome (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff([]string{"", own}, batch.names()); diff != "" {
					t.Errorf("names (-want +got):\n%s", diff)
				}
			})
		}
	}
	if (nodebinding.Outcome{}).Allowed() {
		t.Error("the zero outcome allows")
	}
	if nodebinding.NewAccounts("").Has("") || nodebinding.Accounts(nil).Has(listed) {
		t.Error("an empty name, or a nil set, is listed")
	}
}

func TestReasons(t *testing.T) {
	t.Parallel()
	wantSeeds := strings.Fields(`node_mismatch node_claim_mismatch unbound_cross_node_token cross_node_claim_absent token_missing
		unbound_token node_claim_absent missing_node_name token_invalid malformed_credentials validator_unavailable
		validator_timeout validator_error`)
	wantOurs := strings.Fields("node_uid_mismatch pod_not_live token_expired rate_limited publisher_not_listed")
	var seeds, ours []string
	for _, r := range nodebinding.Reasons() {
		if r.Ours() {
			ours = append(ours, string(r))
		} else {
			seeds = append(seeds, string(r))
		}
	}
	if diff := cmp.Diff(wantSeeds, seeds); diff != "" {
		t.Errorf("the seed's (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantOurs, ours); diff != "" {
		t.Errorf("ours (-want +got):\n%s", diff)
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	const unknown = "the call could not be decided" // what a reason without a sentence of its own reads
	for _, r := range nodebinding.Reasons() {
		o := nodebinding.Outcome{Code: nodebinding.PermissionDenied, Reason: r, Event: -1}
		if m := o.Message(); m == "" || m == unknown {
			t.Errorf("%s reads %q", r, m)
		}
	}
	batch := batchOf(own, absent, "node-b\nlevel=error msg=forged")
	got := nodebinding.Apply(nodebinding.Decide(socket(), noToken()), nodebinding.Enforce, batch).Message()
	want := "event 2: names another node than the caller's own; leave the name out, or have the account listed in crossNodeServiceAccounts"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	got = nodebinding.Apply(nodebinding.Decide(failOpen(), review(nodebinding.Unavailable)), nodebinding.Enforce, batch).Message()
	want = "event 2: names another node, and the token cannot be checked at the moment; try again"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("message of a degraded caller (-want +got):\n%s", diff)
	}
	if got := (nodebinding.Outcome{}).Message(); got == "" {
		t.Error("the zero outcome has no message")
	}
}

// TestCodes holds the numbers to gRPC's, written down once more.
func TestCodes(t *testing.T) {
	t.Parallel()
	for code, want := range map[nodebinding.Code]uint32{
		nodebinding.OK: 0, nodebinding.Canceled: 1, nodebinding.Unknown: 2, nodebinding.InvalidArgument: 3,
		nodebinding.DeadlineExceeded: 4, nodebinding.NotFound: 5, nodebinding.AlreadyExists: 6, nodebinding.PermissionDenied: 7,
		nodebinding.ResourceExhausted: 8, nodebinding.FailedPrecondition: 9, nodebinding.Aborted: 10, nodebinding.OutOfRange: 11,
		nodebinding.Unimplemented: 12, nodebinding.Internal: 13, nodebinding.Unavailable: 14, nodebinding.DataLoss: 15,
		nodebinding.Unauthenticated: 16, nodebinding.Undecided: 13, 200: 13,
	} {
		if got := code.GRPC(); got != want {
			t.Errorf("%v is %d on the wire, want %d", code, got, want)
		}
		if code != nodebinding.Undecided && code != 200 && nodebinding.FromGRPC(want) != code {
			t.Errorf("%d is %v, want %v", want, nodebinding.FromGRPC(want), code)
		}
	}
	if got := nodebinding.FromGRPC(17); got != nodebinding.Unknown {
		t.Errorf("a number that gRPC does not know is %v, want Unknown", got)
	}
}
