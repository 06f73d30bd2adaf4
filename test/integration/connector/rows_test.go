//go:build linux

package connector

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/test/timing"
)

// call is one row of the truth table with a token that the API server has made.
type call struct {
	token string
	names []string
	code  codes.Code
	// counts are the series of platform_connector_auth_* that must grow by one.
	reason, decision, claim string
}

// check makes the calls one after the other and looks at codes and counters.
func check(t *testing.T, r *running, calls map[string]call) {
	t.Helper()
	for name, tc := range calls {
		t.Run(name, func(t *testing.T) {
			series := map[string]float64{}
			for family, value := range map[string]string{
				"platform_connector_auth_violations_total{reason=": tc.reason, "platform_connector_auth_decisions_total{decision=": tc.decision,
				"platform_connector_auth_node_claim_total{result=": tc.claim,
			} {
				if value != "" {
					one := family + `"` + value + `"}`
					series[one] = r.counter(one)
				}
			}
			err := r.call(tc.token, tc.names...)
			if got := status.Code(err); got != tc.code {
				t.Errorf("code = %s (%v), want %s", got, err, tc.code)
			}
			if marked(err) {
				t.Error("bears the mark of an outage")
			}
			for one, before := range series {
				if got := r.counter(one) - before; got != 1 {
					t.Errorf("%s grew by %v, want 1", one, got)
				}
			}
		})
	}
}

// TestSocketRows are the rows of the socket role that a real token can produce: T1, T16, T17 and T18 among them.
func TestSocketRows(t *testing.T) {
	h := shared.home(t)
	r := h.run()
	own, away := h.node.Name, h.away.Name
	here, csp := h.pod("here", monitor, own), h.pod("csp", listed, own)
	there, cspThere := h.pod("there", monitor, away), h.pod("csp-there", listed, away)
	pending, cspPending := h.pod("pending", monitor, ""), h.pod("csp-pending", listed, "")
	stolen := h.of(there)
	check(t, r, map[string]call{
		"1 no token":                         {"", []string{own, ""}, codes.OK, "", "node_local", ""},
		"2 no token, foreign":                {"", []string{away}, codes.PermissionDenied, "node_mismatch", "node_local", ""},
		"3 malformed":                        {" x", []string{""}, codes.Unauthenticated, "malformed_credentials", "", ""},
		"4 forged":                           {h.of(here)[:40] + ".e30.c2ln", []string{""}, codes.Unauthenticated, "token_invalid", "", ""},
		"4 for another audience":             {h.token(monitor, nil, "another"), []string{""}, codes.Unauthenticated, "token_invalid", "", ""},
		"10 T1 of another node":              {stolen, []string{own}, codes.PermissionDenied, "node_claim_mismatch", "", ""},
		"10 T1 again, from the cache":        {stolen, []string{""}, codes.PermissionDenied, "node_claim_mismatch", "", ""},
		"10 T1 listed":                       {h.of(cspThere), []string{own}, codes.PermissionDenied, "node_claim_mismatch", "", ""},
		"11 own node":                        {h.of(here), []string{own, ""}, codes.OK, "", "node_local", "verified"},
		"12 own node, foreign name":          {h.of(here), []string{away}, codes.PermissionDenied, "node_mismatch", "node_local", "verified"},
		"13 T18 never scheduled":             {h.of(pending), []string{""}, codes.OK, "", "node_local", "absent"},
		"13 T16 unbound":                     {h.token(monitor, nil), []string{""}, codes.OK, "", "node_local", "absent"},
		"14 unbound, foreign name":           {h.token(monitor, nil), []string{away}, codes.PermissionDenied, "node_mismatch", "node_local", "absent"},
		"15 T16 listed, unbound":             {h.token(listed, nil), []string{own}, codes.PermissionDenied, "unbound_cross_node_token", "", "absent"},
		"15 T17 listed, bound to this node":  {h.ofNode(listed, h.node), []string{own}, codes.PermissionDenied, "unbound_cross_node_token", "", "verified"},
		"16 T18 listed, never scheduled":     {h.of(cspPending), []string{own}, codes.PermissionDenied, "cross_node_claim_absent", "", "absent"},
		"17 listed":                          {h.of(csp), []string{away, own}, codes.OK, "", "cross_node", "verified"},
		"18 listed, a blank name":            {h.of(csp), []string{away, ""}, codes.InvalidArgument, "missing_node_name", "cross_node", "verified"},
		"T42 another case is another node":   {"", []string{"N" + own[1:]}, codes.PermissionDenied, "node_mismatch", "node_local", ""},
		"T42 a trailing dot is another node": {"", []string{own + "."}, codes.PermissionDenied, "node_mismatch", "node_local", ""},
	})
}

// TestDeploymentRows are the rows of the deployment role, over TLS.
func TestDeploymentRows(t *testing.T) {
	h := shared.home(t)
	r := h.run(func(p *plan) { p.deployment = true })
	own, away := h.node.Name, h.away.Name
	here, csp := h.pod("here", monitor, own), h.pod("csp", listed, own)
	pending, cspPending := h.pod("pending", monitor, ""), h.pod("csp-pending", listed, "")
	check(t, r, map[string]call{
		"23 no token":                {"", []string{own}, codes.Unauthenticated, "token_missing", "", ""},
		"24 malformed":               {" x", []string{own}, codes.Unauthenticated, "malformed_credentials", "", ""},
		"24 forged":                  {h.of(here)[:40] + ".e30.c2ln", []string{own}, codes.Unauthenticated, "token_invalid", "", ""},
		"26 T16 unbound":             {h.token(monitor, nil), []string{own}, codes.PermissionDenied, "unbound_token", "", "absent"},
		"26 T17 bound to a node":     {h.ofNode(monitor, h.node), []string{own}, codes.PermissionDenied, "unbound_token", "", ""},
		"27 T18 never scheduled":     {h.of(pending), []string{own}, codes.PermissionDenied, "node_claim_absent", "", "absent"},
		"28 its node":                {h.of(here), []string{own, ""}, codes.OK, "", "node_local", "verified"},
		"29 another's":               {h.of(here), []string{away}, codes.PermissionDenied, "node_mismatch", "node_local", "verified"},
		"30 listed, unbound":         {h.token(listed, nil), []string{own}, codes.PermissionDenied, "unbound_cross_node_token", "", "absent"},
		"30 listed, bound to a node": {h.ofNode(listed, h.node), []string{own}, codes.PermissionDenied, "unbound_cross_node_token", "", ""},
		"30 listed, never scheduled": {h.of(cspPending), []string{own}, codes.PermissionDenied, "cross_node_claim_absent", "", "absent"},
		"31 listed":                  {h.of(csp), []string{away, own}, codes.OK, "", "cross_node", "verified"},
		"32 listed, a blank name":    {h.of(csp), []string{away, ""}, codes.InvalidArgument, "missing_node_name", "cross_node", "verified"},
	})
	if err := r.send("no good key", h.of(here), own); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a key with a space: %v", err)
	}
}

// TestT13T15OtherTokens is T13 and T15: tokens that are for others too, where that is refused, and tokens from Secrets.
func TestT13T15OtherTokens(t *testing.T) {
	h := shared.home(t)
	r := h.run(func(p *plan) {
		p.settings = "review: {singleAudience: true}\nsinks: {kubernetes: {enabled: false}}\nSPOOL"
	})
	secret, err := h.Admin.CoreV1().Secrets(h.namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "legacy", Annotations: map[string]string{corev1.ServiceAccountNameKey: monitor}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{})
	must(t, err)
	timing.Within(t, 20e9, "the controller fills the Secret", func() bool {
		secret, err = h.Admin.CoreV1().Secrets(h.namespace).Get(t.Context(), "legacy", metav1.GetOptions{})
		must(t, err)
		return len(secret.Data["token"]) > 0
	})
	check(t, r, map[string]call{
		"T13 two audiences":  {h.token(monitor, nil, audience, "another"), []string{""}, codes.Unauthenticated, "token_invalid", "", ""},
		"T15 from a Secret":  {string(secret.Data["token"]), []string{""}, codes.Unauthenticated, "token_invalid", "", ""},
		"one audience alone": {h.token(monitor, nil), []string{""}, codes.OK, "", "node_local", "absent"},
	})
}
