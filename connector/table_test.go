package connector

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// row is one row of the truth table in docs/connector.md: who calls with what, and all that must come of it.
type row struct {
	deployment, audit, failOpen, disabled bool
	// header makes the values of the authorization metadata.
	header func(*rig) []string
	names  []string

	code       codes.Code
	outage     bool // with ErrorInfo
	kept       []string
	violations map[string]float64
	decision   string
	claim      string
}

// The callers of the table.
func none(*rig) []string      { return nil }
func malformed(*rig) []string { return []string{"Basic eDp5"} }

func identified(id identity) func(*rig) []string {
	return func(g *rig) []string { return bearer(g.backend.of(id)) }
}

func reviewedAs(change func(*authenticationv1.TokenReviewStatus)) func(*rig) []string {
	return func(g *rig) []string {
		s := accepted(identity{monitor, "pod-1", own, ownUID})
		change(&s)
		return bearer(g.backend.status(s))
	}
}

func failing(err error) func(*rig) []string {
	return func(g *rig) []string { return bearer(g.backend.fails(err)) }
}

// impatient is a caller whose own deadline ends the review.
func impatient(g *rig) []string {
	return bearer(g.backend.says(func(ctx context.Context) (authenticationv1.TokenReviewStatus, error) {
		<-ctx.Done()
		return authenticationv1.TokenReviewStatus{}, ctx.Err()
	}))
}

func rows() map[string]row {
	boundOwn, boundForeign := identity{monitor, "pod-1", own, ownUID}, identity{monitor, "pod-1", foreign, "uid-b"}
	unclaimed, unbound := identity{monitor, "pod-1", "", ""}, identity{monitor, "", "", ""}
	nodeBound := identity{monitor, "", own, ownUID}
	csp := func(id identity) identity { id.user = listed; return id }
	bad := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 422, Reason: metav1.StatusReasonInvalid, Message: "no"}}
	one := func(reasons ...string) map[string]float64 {
		out := map[string]float64{}
		for _, r := range reasons {
			out[r]++
		}
		return out
	}
	return map[string]row{
		"1 no token, own and blank names":  {header: none, names: []string{own, ""}, kept: []string{own, own}, decision: "node_local"},
		"2 no token, a foreign name":       {header: none, names: []string{own, foreign}, code: codes.PermissionDenied, violations: one("node_mismatch"), decision: "node_local"},
		"3 malformed":                      {header: malformed, names: []string{""}, code: codes.Unauthenticated, violations: one("malformed_credentials")},
		"4 the review says no":             {header: reviewedAs(func(s *authenticationv1.TokenReviewStatus) { s.Authenticated = false }), names: []string{""}, code: codes.Unauthenticated, violations: one("token_invalid")},
		"4 T12 the audience is not echoed": {header: reviewedAs(func(s *authenticationv1.TokenReviewStatus) { s.Audiences = nil }), names: []string{""}, code: codes.Unauthenticated, violations: one("token_invalid")},
		"4 T10 no service account":         {header: reviewedAs(func(s *authenticationv1.TokenReviewStatus) { s.User.Username = "system:anonymous" }), names: []string{""}, code: codes.Unauthenticated, violations: one("token_invalid")},
		"4 T11 a yes with an error":        {header: reviewedAs(func(s *authenticationv1.TokenReviewStatus) { s.Error = "hm" }), names: []string{""}, code: codes.Unauthenticated, violations: one("token_invalid")},
		"4 T20 an ambiguous claim": {header: reviewedAs(func(s *authenticationv1.TokenReviewStatus) {
			s.User.Extra["authentication.kubernetes.io/node-name"] = []string{own, foreign}
		}), names: []string{""}, code: codes.Unauthenticated, violations: one("token_invalid")},
		"5 the validator is away":                    {header: failing(errReset), names: []string{""}, code: codes.Unavailable, outage: true, violations: one("validator_unavailable")},
		"7 the validator errs":                       {header: failing(bad), names: []string{""}, code: codes.Internal, violations: one("validator_error")},
		"8 away and fail-open, own and blank":        {failOpen: true, header: failing(errReset), names: []string{own, ""}, kept: []string{own, own}, violations: one("validator_unavailable"), decision: "node_local"},
		"9 away and fail-open, foreign":              {failOpen: true, header: failing(errReset), names: []string{"", foreign}, code: codes.Unavailable, violations: one("validator_unavailable"), decision: "node_local"},
		"10 T1 a claim of another node":              {header: identified(boundForeign), names: []string{own}, code: codes.PermissionDenied, violations: one("node_claim_mismatch")},
		"10 the same, listed":                        {header: identified(csp(boundForeign)), names: []string{foreign}, code: codes.PermissionDenied, violations: one("node_claim_mismatch")},
		"11 claim of the own node":                   {header: identified(boundOwn), names: []string{own, ""}, kept: []string{own, own}, decision: "node_local", claim: "verified"},
		"12 the same, foreign name":                  {header: identified(boundOwn), names: []string{foreign}, code: codes.PermissionDenied, violations: one("node_mismatch"), decision: "node_local", claim: "verified"},
		"13 T19 no claim":                            {header: identified(unclaimed), names: []string{"", own}, kept: []string{own, own}, decision: "node_local", claim: "absent"},
		"13 T16 not bound":                           {header: identified(unbound), names: []string{""}, kept: []string{own}, decision: "node_local", claim: "absent"},
		"14 no claim, foreign name":                  {header: identified(unclaimed), names: []string{foreign}, code: codes.PermissionDenied, violations: one("node_mismatch"), decision: "node_local", claim: "absent"},
		"15 T16 listed and not bound":                {header: identified(csp(unbound)), names: []string{own}, code: codes.PermissionDenied, violations: one("unbound_cross_node_token"), claim: "absent"},
		"15 T17 listed and bound to the node":        {header: identified(csp(nodeBound)), names: []string{own}, code: codes.PermissionDenied, violations: one("unbound_cross_node_token"), claim: "verified"},
		"16 T18 listed, never scheduled":             {header: identified(csp(unclaimed)), names: []string{own}, code: codes.PermissionDenied, violations: one("cross_node_claim_absent"), claim: "absent"},
		"17 listed":                                  {header: identified(csp(boundOwn)), names: []string{foreign, own}, kept: []string{foreign, own}, decision: "cross_node", claim: "verified"},
		"18 listed, a blank name":                    {header: identified(csp(boundOwn)), names: []string{foreign, ""}, code: codes.InvalidArgument, violations: one("missing_node_name"), decision: "cross_node", claim: "verified"},
		"18 the same in audit":                       {audit: true, header: identified(csp(boundOwn)), names: []string{foreign, ""}, code: codes.InvalidArgument, violations: one("missing_node_name"), decision: "cross_node", claim: "verified"},
		"19 audit, no token, foreign":                {audit: true, header: none, names: []string{foreign, ""}, kept: []string{foreign, own}, violations: one("node_mismatch"), decision: "node_local"},
		"20 audit, malformed":                        {audit: true, header: malformed, names: []string{""}, kept: []string{own}, violations: one("malformed_credentials"), decision: "node_local"},
		"20 audit, malformed, foreign":               {audit: true, header: malformed, names: []string{foreign}, kept: []string{foreign}, violations: one("malformed_credentials", "node_mismatch"), decision: "node_local"},
		"20 audit, invalid":                          {audit: true, header: reviewedAs(func(s *authenticationv1.TokenReviewStatus) { s.Authenticated = false }), names: []string{""}, kept: []string{own}, violations: one("token_invalid"), decision: "node_local"},
		"20 audit, away":                             {audit: true, header: failing(errReset), names: []string{foreign}, kept: []string{foreign}, violations: one("validator_unavailable", "node_mismatch"), decision: "node_local"},
		"20 audit, claim of another node":            {audit: true, header: identified(boundForeign), names: []string{""}, kept: []string{own}, violations: one("node_claim_mismatch"), decision: "node_local"},
		"21 audit and fail-open, away, foreign":      {audit: true, failOpen: true, header: failing(errReset), names: []string{foreign, ""}, kept: []string{foreign, own}, violations: one("validator_unavailable"), decision: "node_local"},
		"22 audit, listed and not bound":             {audit: true, header: identified(csp(unbound)), names: []string{"", foreign}, kept: []string{own, foreign}, violations: one("unbound_cross_node_token", "node_mismatch"), decision: "node_local", claim: "absent"},
		"22 audit, listed, never scheduled":          {audit: true, header: identified(csp(unclaimed)), names: []string{""}, kept: []string{own}, violations: one("cross_node_claim_absent"), decision: "node_local", claim: "absent"},
		"23 D, no token":                             {deployment: true, header: none, names: []string{own}, code: codes.Unauthenticated, violations: one("token_missing")},
		"24 D, malformed":                            {deployment: true, header: malformed, names: []string{own}, code: codes.Unauthenticated, violations: one("malformed_credentials")},
		"24 D, invalid":                              {deployment: true, header: reviewedAs(func(s *authenticationv1.TokenReviewStatus) { s.Authenticated = false }), names: []string{own}, code: codes.Unauthenticated, violations: one("token_invalid")},
		"25 D, away, never degrades":                 {deployment: true, failOpen: true, audit: true, header: failing(errReset), names: []string{own}, code: codes.Unavailable, outage: true, violations: one("validator_unavailable")},
		"25 D, errs":                                 {deployment: true, header: failing(bad), names: []string{own}, code: codes.Internal, violations: one("validator_error")},
		"26 D, not bound":                            {deployment: true, header: identified(unbound), names: []string{own}, code: codes.PermissionDenied, violations: one("unbound_token"), claim: "absent"},
		"26 D, T17 bound to the node":                {deployment: true, header: identified(nodeBound), names: []string{own}, code: codes.PermissionDenied, violations: one("unbound_token")},
		"27 D, T18 never scheduled":                  {deployment: true, header: identified(unclaimed), names: []string{own}, code: codes.PermissionDenied, violations: one("node_claim_absent"), claim: "absent"},
		"28 D, own and blank":                        {deployment: true, header: identified(boundForeign), names: []string{foreign, ""}, kept: []string{foreign, foreign}, decision: "node_local", claim: "verified"},
		"29 D, another's":                            {deployment: true, header: identified(boundForeign), names: []string{own}, code: codes.PermissionDenied, violations: one("node_mismatch"), decision: "node_local", claim: "verified"},
		"30 D, listed and not bound":                 {deployment: true, header: identified(csp(unbound)), names: []string{own}, code: codes.PermissionDenied, violations: one("unbound_cross_node_token"), claim: "absent"},
		"30 D, listed and bound to the node":         {deployment: true, header: identified(csp(nodeBound)), names: []string{own}, code: codes.PermissionDenied, violations: one("unbound_cross_node_token")},
		"30 D, listed, never scheduled":              {deployment: true, header: identified(csp(unclaimed)), names: []string{own}, code: codes.PermissionDenied, violations: one("cross_node_claim_absent"), claim: "absent"},
		"31 D, listed":                               {deployment: true, header: identified(csp(boundForeign)), names: []string{own, "node-c"}, kept: []string{own, "node-c"}, decision: "cross_node", claim: "verified"},
		"32 D, listed, a blank name":                 {deployment: true, header: identified(csp(boundForeign)), names: []string{own, ""}, code: codes.InvalidArgument, violations: one("missing_node_name"), decision: "cross_node", claim: "verified"},
		"33 disabled, not stamped":                   {disabled: true, header: malformed, names: []string{foreign, ""}, kept: []string{foreign, ""}},
		"precedence: malformed before everything":    {deployment: true, header: func(g *rig) []string { t := bearer(g.backend.of(boundOwn)); return []string{t[0], t[0]} }, names: []string{foreign}, code: codes.Unauthenticated, violations: one("malformed_credentials")},
		"precedence: validator before provenance":    {header: failing(errReset), names: []string{foreign}, code: codes.Unavailable, outage: true, violations: one("validator_unavailable")},
		"precedence: provenance before attestation":  {header: identified(identity{listed, "", foreign, "x"}), names: []string{""}, code: codes.PermissionDenied, violations: one("node_claim_mismatch")},
		"precedence: attestation before blank names": {header: identified(csp(unbound)), names: []string{"", foreign}, code: codes.PermissionDenied, violations: one("unbound_cross_node_token"), claim: "absent"},
		"T7 the node was made anew":                  {header: identified(identity{monitor, "pod-1", own, "uid-of-old-node-a"}), names: []string{""}, code: codes.PermissionDenied, violations: one("node_uid_mismatch")},
		"T9 a leading space":                         {header: func(*rig) []string { return []string{"Bearer  x.y.z"} }, names: []string{""}, code: codes.Unauthenticated, violations: one("malformed_credentials")},
		"T42 another case is another node":           {header: none, names: []string{"Node-A"}, code: codes.PermissionDenied, violations: one("node_mismatch"), decision: "node_local"},
		"T42 another dot is another node":            {header: none, names: []string{"node-a."}, code: codes.PermissionDenied, violations: one("node_mismatch"), decision: "node_local"},
		"T41 one foreign event spoils the good ones": {header: none, names: []string{own, "", own, foreign}, code: codes.PermissionDenied, violations: one("node_mismatch"), decision: "node_local"},
	}
}

// TestTruthTable sends every row over the wire: a Unix socket, or TLS. Row 6 is in TestTheCallersOwnDeadline.
func TestTruthTable(t *testing.T) {
	t.Parallel()
	for name, tc := range rows() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			role := nodebinding.Socket
			if tc.deployment {
				role = nodebinding.Deployment
			}
			g := start(t, role, func(s *setup) {
				s.Rules.FailOpen = tc.failOpen
				switch {
				case tc.audit:
					s.Mode = nodebinding.Audit
				case tc.disabled:
					s.Mode = nodebinding.Disabled
				}
			})
			err := g.call(t, tc.header(g), tc.names...)
			checkRow(t, g, tc, err)
		})
	}
}

func checkRow(t *testing.T, g *rig, tc row, err error) {
	t.Helper()
	if got := status.Code(err); got != tc.code {
		t.Errorf("code = %s (%v), want %s", got, err, tc.code)
	}
	if got := marked(err); got != tc.outage {
		t.Errorf("ErrorInfo = %t, want %t", got, tc.outage)
	}
	if diff := cmp.Diff(tc.kept, g.kept()); diff != "" {
		t.Errorf("handed on (-want +got):\n%s", diff)
	}
	word := func(s string) map[string]float64 {
		if s == "" {
			return map[string]float64{}
		}
		return map[string]float64{s: 1}
	}
	violations := tc.violations
	if violations == nil {
		violations = map[string]float64{}
	}
	for family, want := range map[string]map[string]float64{
		"platform_connector_auth_violations_total": violations,
		"platform_connector_auth_decisions_total":  word(tc.decision),
		"platform_connector_auth_node_claim_total": word(tc.claim),
	} {
		if diff := cmp.Diff(want, g.counts(t, family)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", family, diff)
		}
	}
}

// marked says whether an error carries the mark of an outage, exactly.
func marked(err error) bool {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason() == "NVSENTINEL_AUTH_BACKEND_UNAVAILABLE" && info.GetDomain() == "nvsentinel.nvidia.com"
		}
	}
	return false
}

// TestTheCallersOwnDeadline is row 6: the review was cut short by the caller, which is no outage.
func TestTheCallersOwnDeadline(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cause    error
		failOpen bool
		code     codes.Code
		kept     []string
	}{
		"its deadline":                {context.DeadlineExceeded, false, codes.DeadlineExceeded, nil},
		"hanging up":                  {context.Canceled, false, codes.Canceled, nil},
		"its deadline, and fail-open": {context.DeadlineExceeded, true, codes.OK, []string{own}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t, nodebinding.Socket, func(s *setup) { s.Reviewer, s.Rules.FailOpen = cut{tc.cause}, tc.failOpen })
			err := g.call(t, bearer(minted(1)), "")
			decision := ""
			if tc.failOpen {
				decision = "node_local"
			}
			checkRow(t, g, row{code: tc.code, kept: tc.kept, violations: map[string]float64{"validator_timeout": 1}, decision: decision}, err)
		})
	}
}

// cut is a reviewer whose callers do not wait.
type cut struct{ cause error }

func (c cut) Review(context.Context, string, *tokenreview.Bucket) (tokenreview.Verdict, error) {
	return tokenreview.Verdict{}, &tokenreview.Error{Reason: tokenreview.ValidatorTimeout, Cause: c.cause}
}
