package grant_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
)

// TestClaims is the payload as it is written, byte for byte (H2 to H5).
func TestClaims(t *testing.T) {
	t.Parallel()
	docker := granted(delegation.Docker)
	docker.req.Scopes = nil
	for name, tc := range map[string]struct {
		q    question
		want string
	}{
		"a pod's": {granted(delegation.Pod), `{"iss":"https://lanyard.example/apis/auth","sub":"alice","act":{"sub":"system:serviceaccount:runs:runner"},` +
			`"aud":"nemo-platform-api","iat":1767323045,"nbf":1767323045,"exp":1767323345,"jti":"","client_id":"nemo-platform","scope":"openid email"}`},
		"a container's, without scope": {docker, `{"iss":"https://lanyard.example/apis/auth","sub":"alice","act":{"sub":"` + docker.row.Name + `"},` +
			`"aud":"nemo-platform-api","iat":1767323045,"nbf":1767323045,"exp":1767323345,"jti":"","client_id":"nemo-platform"}`},
	} {
		d := tc.q.decide()
		got, err := json.Marshal(d.Claims)
		if err != nil || d.Claims == nil {
			t.Fatalf("%s: %+v, %v", name, d, err)
		}
		if diff := cmp.Diff(tc.want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if d.Claims.ExpiresIn() != 300 {
			t.Errorf("%s: expires in %d", name, d.Claims.ExpiresIn())
		}
	}
}

func TestLifetime(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ttl, row, subject time.Duration
		want              int64
	}{
		"the configured":          {300 * time.Second, time.Hour, 10 * time.Minute, 300},
		"the row's":               {300 * time.Second, 100 * time.Second, 10 * time.Minute, 100},
		"the subject token's":     {300 * time.Second, time.Hour, 45 * time.Second, 45},
		"cut, never rounded":      {300 * time.Second, 99*time.Second + 300*time.Millisecond, 10 * time.Minute, 99},
		"cut below the second":    {300 * time.Second, 99*time.Second + 500*time.Millisecond, 10 * time.Minute, 100}, // 05.6 + 99.5 = 105.1
		"the least that is given": {300 * time.Second, 30 * time.Second, 30 * time.Second, 30},
	} {
		q := granted(delegation.Pod)
		q.rules.TTL, q.row.ExpiresAt, q.proof.Expiry = tc.ttl, q.now.Add(tc.row), q.now.Add(tc.subject)
		d := q.decide()
		if d.Claims == nil || d.Claims.ExpiresIn() != tc.want {
			t.Errorf("%s: %+v, want %d seconds", name, d, tc.want)
		}
	}
}

func TestScopesNarrow(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		asked, allowed, submission []string
		want                       string
	}{
		"what all allow":              {[]string{"openid", "email"}, []string{"openid", "email"}, []string{"openid", "email"}, "openid email"},
		"C5: more than the job has":   {[]string{"openid", "groups"}, []string{"openid", "groups"}, []string{"openid"}, "openid"},
		"C5: more than is configured": {[]string{"openid", "admin"}, []string{"openid"}, []string{"openid", "admin"}, "openid"},
		"nothing asked":               {nil, []string{"openid"}, []string{"openid"}, ""},
		"nothing left":                {[]string{"admin"}, []string{"openid"}, []string{"openid"}, ""},
		"in the order asked":          {[]string{"email", "openid"}, []string{"openid", "email"}, []string{"openid", "email"}, "email openid"},
		"a job without any":           {[]string{"openid"}, []string{"openid"}, nil, ""},
		"by the whole word":           {[]string{"open", "openidx", "OPENID"}, []string{"openid"}, []string{"openid"}, ""},
	} {
		q := granted(delegation.Pod)
		q.req.Scopes, q.rules.Scopes, q.sub.Scopes = tc.asked, tc.allowed, tc.submission
		if d := q.decide(); d.Claims == nil || d.Claims.Scope != tc.want {
			t.Errorf("%s: %+v, want %q", name, d, tc.want)
		}
	}
}

func TestAttributes(t *testing.T) {
	t.Parallel()
	many := make([]string, 150)
	for i := range many {
		many[i] = fmt.Sprint("g", i)
	}
	long := []string{strings.Repeat("a", 4000), strings.Repeat("b", 200), "c"}
	for name, tc := range map[string]struct {
		about         grant.Attributes
		off           bool
		email, groups string
		dropped       int
	}{
		"trusted":                     {about: grant.Attributes{grant.Configured, "a@b.example", []string{"x", "y z"}}, email: "a@b.example", groups: "x,y z"},
		"stamped":                     {about: grant.Attributes{grant.Stamped, "a@b.example", []string{"x"}}, email: "a@b.example", groups: "x"},
		"of unknown source":           {about: grant.Attributes{"", "a@b.example", []string{"x"}}},
		"of another source":           {about: grant.Attributes{"annotation", "a@b.example", []string{"x"}}},
		"switched off":                {about: grant.Attributes{grant.Configured, "a@b.example", []string{"x"}}, off: true},
		"none":                        {about: grant.Attributes{Source: grant.Configured}},
		"a comma":                     {about: grant.Attributes{grant.Configured, "", []string{"x,admin", "y"}}, groups: "y", dropped: 1},
		"a control":                   {about: grant.Attributes{grant.Configured, "", []string{"x\n", "a\x7f"}}, dropped: 2},
		"not ASCII":                   {about: grant.Attributes{grant.Configured, "", []string{"gruppé"}}, dropped: 1},
		"an outer space":              {about: grant.Attributes{grant.Configured, "", []string{" x", "x ", "x"}}, groups: "x", dropped: 2},
		"Kubernetes' own":             {about: grant.Attributes{grant.Configured, "", []string{"system:masters", "SYSTEM:x", "systematic"}}, groups: "systematic", dropped: 2},
		"empty":                       {about: grant.Attributes{grant.Configured, "", []string{"", "x"}}, groups: "x", dropped: 1},
		"twice":                       {about: grant.Attributes{grant.Configured, "", []string{"x", "x"}}, groups: "x"},
		"H12: too many":               {about: grant.Attributes{grant.Configured, "", many}, groups: strings.Join(many[:100], ","), dropped: 50},
		"H12: too long":               {about: grant.Attributes{grant.Configured, "", long}, groups: long[0] + ",c", dropped: 1},
		"an address without a domain": {about: grant.Attributes{grant.Configured, "alice", nil}, dropped: 1},
		"an address with two":         {about: grant.Attributes{grant.Configured, "a@b@c", nil}, dropped: 1},
		"two addresses":               {about: grant.Attributes{grant.Configured, "a@b,c", nil}, dropped: 1},
		"an address with a newline":   {about: grant.Attributes{grant.Configured, "a@b\nX-NMP-Principal-Id: root", nil}, dropped: 1},
		"an address that is too long": {about: grant.Attributes{grant.Configured, "a@" + strings.Repeat("b", 253), nil}, dropped: 1},
	} {
		q := granted(delegation.Pod)
		q.about, q.rules.Email, q.rules.Groups = tc.about, !tc.off, !tc.off
		d := q.decide()
		if d.Claims == nil || d.Claims.Email != tc.email || d.Claims.Groups != tc.groups || d.Dropped != tc.dropped {
			t.Errorf("%s: got %+v, %d dropped, want %q, %q, %d", name, d.Claims, d.Dropped, tc.email, tc.groups, tc.dropped)
		}
	}
}

func TestRefusalsAreAnsweredAsSpecified(t *testing.T) {
	t.Parallel()
	// The exceptions; everything else is 400 invalid_request.
	want := map[grant.Reason]string{
		grant.GrantTypeUnsupported: "400 unsupported_grant_type 0", grant.ClientUnknown: "401 invalid_client 0", grant.ResourcePresent: "400 invalid_target 0",
		grant.AudienceDenied: "400 invalid_target 0", grant.AudienceNotGranted: "400 invalid_target 0", grant.RateLimited: "429 temporarily_unavailable 5",
		grant.ReviewUnavailable: "503 temporarily_unavailable 1", grant.ReviewerRefused: "503 temporarily_unavailable 5",
		grant.SubjectExpiring: "503 temporarily_unavailable 5", grant.StoreUnavailable: "503 temporarily_unavailable 1",
		grant.RowAbsent: "503 temporarily_unavailable 1", grant.RowPending: "503 temporarily_unavailable 1", grant.KeyUnavailable: "503 temporarily_unavailable 1",
	}
	seen, sentences := map[grant.Reason]bool{}, map[string]bool{}
	for _, why := range grant.Reasons() {
		r := grant.Refuse(why)
		expected, ok := want[why]
		if !ok {
			expected = "400 invalid_request 0"
		}
		if got := fmt.Sprintf("%d %s %d", r.Status(), r.Code, r.RetryAfter()); got != expected {
			t.Errorf("%s: answered with %s, want %s", why, got, expected)
		}
		if why == "" || seen[why] {
			t.Errorf("reason %q is empty or listed twice", why)
		}
		seen[why] = true
		sentences[r.Description()] = true
		if d := r.Description(); d == "" || strings.ContainsFunc(d, func(c rune) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' }) {
			t.Errorf("%s: E2: the description %q holds what it may not", why, d)
		}
	}
	for _, secret := range []grant.Reason{
		grant.ProofMalformed, grant.ReviewRejected, grant.Unbound, grant.SubjectExpired, grant.HashMismatch, grant.RowMismatch, grant.NodeMismatch,
		grant.RowRevoked, grant.RowExpired, grant.RowExpiring, grant.SubmissionRevoked, grant.SubmitterReserved, grant.IdentityInvalid,
	} {
		if got := grant.Refuse(secret).Description(); got != "the subject token was refused" {
			t.Errorf("E3: %s is told: %q", secret, got)
		}
	}
	if len(sentences) > 20 {
		t.Errorf("%d sentences; the set is to be small", len(sentences))
	}
	for _, unknown := range []grant.Refusal{{}, grant.Refuse("new")} {
		if unknown.Status() != 500 || unknown.Description() == "" || unknown.RetryAfter() != 0 {
			t.Errorf("%+v: answered with %d", unknown, unknown.Status())
		}
	}
}

func TestRulesAreValidated(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*grant.Rules)
		says   string
	}{
		"as they are":                 {func(*grant.Rules) {}, ""},
		"switched off, and empty":     {func(r *grant.Rules) { *r = grant.Rules{} }, ""},
		"no issuer":                   {func(r *grant.Rules) { r.Issuer = "" }, "issuer"},
		"an http issuer":              {func(r *grant.Rules) { r.Issuer = "http://x" }, "issuer"},
		"no client":                   {func(r *grant.Rules) { r.ClientID = "" }, "client id"},
		"issued audience = subject's": {func(r *grant.Rules) { r.Audiences = append(r.Audiences, client) }, "exchanged again"},
		"default not among them":      {func(r *grant.Rules) { r.DefaultAudience = "other" }, "one of the audiences"},
		"no default":                  {func(r *grant.Rules) { r.DefaultAudience = "" }, "one of the audiences"},
		"an empty audience":           {func(r *grant.Rules) { r.Audiences = append(r.Audiences, "") }, "audience is empty"},
		"a scope of two words":        {func(r *grant.Rules) { r.Scopes = []string{"a b"} }, "scope"},
		"a life of nothing":           {func(r *grant.Rules) { r.TTL = 0 }, "life"},
		"a life of a day":             {func(r *grant.Rules) { r.TTL = 24 * time.Hour }, "life"},
		"half a second":               {func(r *grant.Rules) { r.TTL = 90*time.Second + time.Second/2 }, "life"},
		"a subject without need":      {func(r *grant.Rules) { r.SystemSubjects = []string{"alice"} }, "needs no leave"},
		"service: is never listed":    {func(r *grant.Rules) { r.SystemSubjects = []string{"service:x"} }, "needs no leave"},
	} {
		r := rules()
		r.Audiences, r.Scopes = slices.Clone(r.Audiences), slices.Clone(r.Scopes)
		tc.change(&r)
		if err := r.Validate(); (err == nil) != (tc.says == "") || !strings.Contains(fmt.Sprint(err), tc.says) && tc.says != "" {
			t.Errorf("%s: error is %v, want it to say %q", name, err, tc.says)
		}
	}
	bad := rules()
	bad.Issuer, bad.ClientID, bad.TTL = "", "", 0
	if err := bad.Validate(); strings.Count(fmt.Sprint(err), "\n") != 2 {
		t.Errorf("three faults are told as %v", err)
	}
}
