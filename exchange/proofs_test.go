package exchange_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
)

// changed is a yes with something else in it.
func changed(f func(*authenticationv1.TokenReviewStatus)) authenticationv1.TokenReviewStatus {
	s := yes(podUID)
	f(&s)
	return s
}

// statusError is what client-go makes of an HTTP status.
func statusError(code int, reason metav1.StatusReason) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "no"}}
}

// TestSubjectTokens is checklist F.
func TestSubjectTokens(t *testing.T) {
	t.Parallel()
	const uidKey = "authentication.kubernetes.io/pod-uid"
	refused := func(reason string) wanted { return wanted{400, "invalid_request", reason} }
	later := func(reason string) wanted { return wanted{503, "temporarily_unavailable", reason} }
	user := func(name string) authenticationv1.TokenReviewStatus {
		return changed(func(s *authenticationv1.TokenReviewStatus) { s.User.Username = name })
	}
	tests := map[string]struct {
		status authenticationv1.TokenReviewStatus
		err    error
		want   wanted
	}{
		"F1: no audiences echoed":          {changed(func(s *authenticationv1.TokenReviewStatus) { s.Audiences = nil }), nil, refused("review_rejected")},
		"F2: another audience echoed":      {changed(func(s *authenticationv1.TokenReviewStatus) { s.Audiences = []string{"https://kubernetes.default.svc"} }), nil, refused("review_rejected")},
		"F4: not authenticated":            {authenticationv1.TokenReviewStatus{Error: "token expired"}, nil, refused("review_rejected")},
		"F5: 401 for our credential":       {authenticationv1.TokenReviewStatus{}, statusError(401, metav1.StatusReasonUnauthorized), later("reviewer_refused")},
		"F5: 403 for our credential":       {authenticationv1.TokenReviewStatus{}, statusError(403, metav1.StatusReasonForbidden), later("reviewer_refused")},
		"F5: 429":                          {authenticationv1.TokenReviewStatus{}, apierrors.NewTooManyRequests("busy", 1), later("review_unavailable")},
		"F5: 500":                          {authenticationv1.TokenReviewStatus{}, apierrors.NewInternalError(errors.New("x")), later("review_unavailable")},
		"F5: a timeout":                    {authenticationv1.TokenReviewStatus{}, context.DeadlineExceeded, later("review_unavailable")},
		"F5: TLS":                          {authenticationv1.TokenReviewStatus{}, errors.New("x509: unknown authority"), later("review_unavailable")},
		"F5: not found":                    {authenticationv1.TokenReviewStatus{}, apierrors.NewNotFound(schema.GroupResource{}, "x"), later("reviewer_refused")},
		"F5: authenticated without a user": {changed(func(s *authenticationv1.TokenReviewStatus) { s.User = authenticationv1.UserInfo{} }), nil, later("reviewer_refused")},
		"F6: a person":                     {user("alice"), nil, refused("review_rejected")},
		"F6: a node":                       {user("system:node:n1"), nil, refused("review_rejected")},
		"F6: three parts":                  {user("system:serviceaccount:a"), nil, refused("review_rejected")},
		"F6: five parts":                   {user("system:serviceaccount:a:b:c"), nil, refused("review_rejected")},
		"F7: no pod UID":                   {changed(func(s *authenticationv1.TokenReviewStatus) { delete(s.User.Extra, uidKey) }), nil, refused("unbound_token")},
		"F7: two pod UIDs, which is an ambiguous review":           {changed(func(s *authenticationv1.TokenReviewStatus) { s.User.Extra[uidKey] = []string{podUID, "b"} }), nil, refused("review_rejected")},
		"F7: no UUID, which is the API server's word all the same": {yes("no-uuid"), nil, later("row_absent")},
		"F7: an empty pod UID":                                     {changed(func(s *authenticationv1.TokenReviewStatus) { s.User.Extra[uidKey] = []string{""} }), nil, refused("unbound_token")},
		"F8: another case of the key": {changed(func(s *authenticationv1.TokenReviewStatus) {
			delete(s.User.Extra, uidKey)
			s.User.Extra[strings.ToUpper(uidKey)] = []string{podUID}
		}), nil, refused("unbound_token")},
		"F9: a pod that nobody has judged":                       {yes("99999999-2222-3333-4444-555555555555"), nil, later("row_absent")},
		"F10: another account has a row of its own, by its name": {user("system:serviceaccount:runs:other"), nil, later("row_absent")},
		"F11: the API server says no":                            {authenticationv1.TokenReviewStatus{}, nil, refused("review_rejected")},
		"another node": {changed(func(s *authenticationv1.TokenReviewStatus) {
			s.User.Extra["authentication.kubernetes.io/node-name"] = []string{"node-2"}
		}), nil, refused("node_mismatch")},
		"no node": {changed(func(s *authenticationv1.TokenReviewStatus) {
			delete(s.User.Extra, "authentication.kubernetes.io/node-name")
		}), nil, refused("node_mismatch")},
		"an error beside a yes": {changed(func(s *authenticationv1.TokenReviewStatus) { s.Error = "x" }), nil, refused("review_rejected")},
		"H: a good one":         {yes(podUID), nil, wanted{200, "", "granted"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "")
			r.delegated()
			r.api.answers(tc.status, tc.err)
			r.check(r.post(form(good())), tc.want)
		})
	}
}

func TestAReviewerThatQuotesTheTokenIsNotRepeated(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.delegated()
	r.api.says(func(_ context.Context, token string, _ []string) (authenticationv1.TokenReviewStatus, error) {
		return authenticationv1.TokenReviewStatus{Error: "bad token " + token}, nil
	})
	r.check(r.post(form(good())), wanted{400, "invalid_request", "review_rejected"})
	r.api.says(func(_ context.Context, token string, _ []string) (authenticationv1.TokenReviewStatus, error) {
		return authenticationv1.TokenReviewStatus{}, errors.New("cannot send " + token)
	})
	if a := r.post(form(subject("other", subjectA, time.Now().Add(time.Hour)))); a.status != 503 {
		t.Errorf("got %d", a.status)
	}
}

func TestF3ReviewsAskForTheSubjectAudience(t *testing.T) { // F3
	t.Parallel()
	r := newRig(t, "")
	r.delegated()
	r.api.says(func(_ context.Context, _ string, audiences []string) (authenticationv1.TokenReviewStatus, error) {
		if !slices.Equal(audiences, []string{subjectA}) {
			t.Errorf("the review names %q", audiences)
		}
		return yes(podUID), nil
	})
	r.granted()
}

func TestF13TokensThatNeedNoReview(t *testing.T) { // F13
	t.Parallel()
	for name, token := range map[string]string{
		"longer than 8 KiB":       strings.Repeat("a", 8<<10+1),
		"two parts":               "a.b",
		"a hundred thousand dots": strings.Repeat(".", 8000),
		"another audience":        subject("x", "https://kubernetes.default.svc", time.Now().Add(time.Hour)),
		"expired":                 subject("x", subjectA, time.Now().Add(-time.Hour)),
		"a newline at its end":    good() + "\n",
		"a space in front":        " " + good(),
		"padding":                 good() + "=",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "")
			r.delegated()
			if a := r.post(form(token)); a.status != 400 || a.code() != "invalid_request" {
				t.Errorf("got %d %s", a.status, a.text)
			}
			if n := r.api.calls.Load(); n != 0 {
				t.Errorf("%d reviews", n)
			}
		})
	}
}

func TestF14OneReviewForManyRequests(t *testing.T) { // F14
	t.Parallel()
	r := newRig(t, "")
	r.delegated()
	enter := make(chan struct{})
	r.api.says(func(context.Context, string, []string) (authenticationv1.TokenReviewStatus, error) {
		<-enter
		return yes(podUID), nil
	})
	var wg sync.WaitGroup
	token := good()
	for range 50 {
		wg.Go(func() {
			if a := r.post(form(token)); a.status != 200 {
				t.Errorf("got %d %s", a.status, a.text)
			}
		})
	}
	close(enter)
	wg.Wait()
	if n := r.api.calls.Load(); n != 1 {
		t.Errorf("%d reviews of one token", n)
	}
}

func TestF15GarbageIsBoundedAndHarmsNobody(t *testing.T) { // F15, attack 28
	t.Parallel()
	r := newRig(t, "review: {failuresBurst: 20, failuresPerMinute: 1}")
	r.delegated()
	token := good()
	r.api.says(func(_ context.Context, sent string, _ []string) (authenticationv1.TokenReviewStatus, error) {
		if sent == token {
			return yes(podUID), nil
		}
		return authenticationv1.TokenReviewStatus{Error: "no"}, nil
	})
	if a := r.post(form(token)); a.status != 200 {
		t.Fatalf("got %d %s", a.status, a.text)
	}
	limited := 0
	for i := range 100 {
		if a := r.post(form(subject(fmt.Sprint("garbage-", i), subjectA, time.Now().Add(time.Hour)))); a.status == http.StatusTooManyRequests {
			limited++
		}
	}
	if calls := r.api.calls.Load(); calls > 25 || limited < 70 {
		t.Errorf("%d reviews, %d requests limited", calls, limited)
	}
	if a := r.post(form(token)); a.status != 200 {
		t.Errorf("a known token of the same address: %d %s", a.status, a.text)
	}
}

// container makes the row of a container and its proof.
func (r *rig) container(state delegation.RowState) delegation.Proof {
	r.t.Helper()
	name := delegation.DockerName("default", "job", "train", "1")
	p, err := delegation.NewProof(name, delegation.Secret{31: 7})
	must(r.t, err)
	r.delegated(func(s *delegation.Submission, w *delegation.Row) {
		s.UID, s.GroupKind = name, "docker/Job"
		*w = delegation.Row{
			Name: name, Kind: delegation.Docker, SubmissionUID: name, ProofHash: p.Hash(), State: state, CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour),
		}
		if state == delegation.Active {
			w.Bound = delegation.Reference{Name: delegation.ReferenceContainer, Value: "c0ffee"}
		}
	})
	return p
}

// TestDockerProofs is checklist G.
func TestDockerProofs(t *testing.T) {
	t.Parallel()
	enc := base64.RawURLEncoding.EncodeToString
	refused := func(reason string) wanted { return wanted{400, "invalid_request", reason} }
	other := delegation.DockerName("default", "job", "other", "1")
	tests := map[string]struct {
		state delegation.RowState
		token func(p delegation.Proof) string
		want  wanted
	}{
		"G1: the right one": {delegation.Active, delegation.Proof.Token, wanted{200, "", "granted"}},
		"G2: no such row": {delegation.Active, func(delegation.Proof) string {
			p, _ := delegation.NewProof(other, delegation.Secret{1})
			return p.Token()
		}, refused("hash_mismatch")},
		"G3: another row's id": {delegation.Active, func(p delegation.Proof) string {
			return strings.Replace(p.Token(), enc([]byte(p.Name)), enc([]byte(other)), 1)
		}, refused("hash_mismatch")},
		"G4: another secret": {delegation.Active, func(p delegation.Proof) string {
			p, _ = delegation.NewProof(p.Name, delegation.Secret{2})
			return p.Token()
		}, refused("hash_mismatch")},
		"G5: a newline": {delegation.Active, func(p delegation.Proof) string { return p.Token() + "\n" }, refused("body_malformed")},
		"G6: padding":   {delegation.Active, func(p delegation.Proof) string { return p.Token() + "=" }, refused("proof_malformed")},
		"a pending row": {delegation.Pending, delegation.Proof.Token, wanted{503, "temporarily_unavailable", "row_pending"}},
		"a wrong secret, pending": {delegation.Pending, func(p delegation.Proof) string {
			p, _ = delegation.NewProof(p.Name, delegation.Secret{2})
			return p.Token()
		}, refused("hash_mismatch")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "")
			p := r.container(tc.state)
			a := r.post(form(tc.token(p), "subject_token_type", wire.TokenTypeDockerProof))
			r.check(a, tc.want)
			if r.api.calls.Load() != 0 {
				t.Error("TokenReview takes no part in Docker's proofs")
			}
		})
	}
	t.Run("the actor is the row", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, "")
		p := r.container(delegation.Active)
		a := r.post(form(p.Token(), "subject_token_type", wire.TokenTypeDockerProof))
		if got := claimsOf(t, a.token())["act"]; fmt.Sprint(got) != fmt.Sprint(map[string]any{"sub": p.Name}) {
			t.Errorf("act is %v", got)
		}
	})
	t.Run("guesses are limited", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, "review: {failuresBurst: 5, failuresPerMinute: 1}")
		r.container(delegation.Active)
		last := 0
		for i := range 8 {
			p, _ := delegation.NewProof(other, delegation.Secret{1, byte(i)})
			last = r.post(form(p.Token(), "subject_token_type", wire.TokenTypeDockerProof)).status
		}
		if last != http.StatusTooManyRequests {
			t.Errorf("the eighth guess: %d", last)
		}
	})
}

// TestRows are the table's rows about delegation rows.
func TestRows(t *testing.T) {
	t.Parallel()
	refused := func(reason string) wanted { return wanted{400, "invalid_request", reason} }
	later := func(reason string) wanted { return wanted{503, "temporarily_unavailable", reason} }
	tests := map[string]struct {
		change func(*delegation.Submission, *delegation.Row)
		after  func(r *rig)
		want   wanted
	}{
		"pending": {func(_ *delegation.Submission, w *delegation.Row) { w.State = delegation.Pending }, nil, later("row_pending")},
		"expired": {func(_ *delegation.Submission, w *delegation.Row) {
			w.CreatedAt, w.ExpiresAt = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		}, nil, refused("row_expired")},
		"20 s left":                         {func(_ *delegation.Submission, w *delegation.Row) { w.ExpiresAt = time.Now().Add(20 * time.Second) }, nil, refused("row_expiring")},
		"F10: another account in the row":   {func(_ *delegation.Submission, w *delegation.Row) { w.ServiceAccount = "other" }, nil, refused("row_mismatch")},
		"F10: another namespace in the row": {func(_ *delegation.Submission, w *delegation.Row) { w.Namespace = "other" }, nil, refused("row_mismatch")},
		"another pod":                       {func(_ *delegation.Submission, w *delegation.Row) { w.Bound.Value = "other" }, nil, refused("row_mismatch")},
		"born revoked": {func(_ *delegation.Submission, w *delegation.Row) {
			w.State, w.Reason, w.RevokedAt, w.SubmissionUID = delegation.Revoked, delegation.PodRefused, time.Now(), ""
		}, nil, refused("row_revoked")},
		"revoked": {nil, func(r *rig) {
			_, err := r.store.Revoke(r.t.Context(), delegation.Revocation{Row: row(), Reason: delegation.PodEnded, At: time.Now()})
			must(r.t, err)
		}, refused("row_revoked")},
		"its submission closed: it ends with its pod": {nil, func(r *rig) {
			_, err := r.store.End(r.t.Context(), "job-uid", delegation.WorkFinished, time.Now())
			must(r.t, err)
		}, wanted{200, "", "granted"}},
		"its submitter revoked": {nil, func(r *rig) {
			_, err := r.store.Revoke(r.t.Context(), delegation.Revocation{Submitter: submitter, Reason: delegation.SubmitterRevoked, At: time.Now()})
			must(r.t, err)
		}, refused("row_revoked")},
		"an audience not granted": {func(s *delegation.Submission, _ *delegation.Row) { s.Audiences = []string{"other"} }, nil, wanted{400, "invalid_target", "audience_not_granted"}},
		"a service's name":        {func(s *delegation.Submission, _ *delegation.Row) { s.Submitter = "Service:x" }, nil, refused("submitter_reserved")},
		"a system's name":         {func(s *delegation.Submission, _ *delegation.Row) { s.Submitter = "SYSTEM:admin" }, nil, refused("submitter_reserved")},
		"a name with a space":     {func(s *delegation.Submission, _ *delegation.Row) { s.Submitter = "a b" }, nil, refused("identity_invalid")},
		"a name that is too long": {func(s *delegation.Submission, _ *delegation.Row) { s.Submitter = strings.Repeat("a", 513) }, nil, refused("identity_invalid")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "")
			if tc.change == nil {
				tc.change = func(*delegation.Submission, *delegation.Row) {}
			}
			r.delegated(tc.change)
			if tc.after != nil {
				tc.after(r)
			}
			r.check(r.post(form(good())), tc.want)
		})
	}
}

// TestTheDatabase is what a failing database comes to: 503, and never a word about the caller.
func TestTheDatabase(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"down": delegation.ErrUnavailable, "read-only": delegation.ErrReadOnly, "damaged": delegation.ErrCorrupt, "newer": delegation.ErrSchemaNewer, "restored": delegation.ErrRestored,
		"older": delegation.ErrSchemaOlder, "slow": context.DeadlineExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "")
			r.delegated()
			token := r.granted().token()
			r.reader.fails(fmt.Errorf("read a row: %w", err))
			if a := r.post(form(good())); a.status != 503 || a.code() != "temporarily_unavailable" || r.count("store_unavailable") != 1 {
				t.Errorf("an exchange: %d %s", a.status, a.text)
			}
			if a := r.callout(token); a.status != 503 {
				t.Errorf("a callout: %d %s", a.status, a.text)
			}
			if a := r.get(wire.PathJWKS); a.status != 200 {
				t.Errorf("the keys: %d", a.status)
			}
		})
	}
}

// TestSubjectTokensNearTheirEnd: the kubelet is about to rotate it.
func TestSubjectTokensNearTheirEnd(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		left time.Duration
		skew time.Duration // of our clock
		want wanted
	}{
		"20 s":                              {20 * time.Second, 0, wanted{503, "temporarily_unavailable", "subject_expiring"}},
		"a minute, our clock a minute fast": {time.Minute, 45 * time.Second, wanted{503, "temporarily_unavailable", "subject_expiring"}},
		"a minute, our clock far ahead":     {time.Minute, 2 * time.Minute, wanted{400, "invalid_request", "subject_expired"}},
		"a minute, our clock behind":        {time.Minute, -time.Minute, wanted{200, "", "granted"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "")
			r.delegated()
			r.skew.Store(int64(tc.skew))
			a := r.post(form(subject("end", subjectA, time.Now().Add(tc.left))))
			r.check(a, tc.want)
		})
	}
}
