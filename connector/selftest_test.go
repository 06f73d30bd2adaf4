package connector

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// asked is a backend by what is asked of it.
type asked struct {
	calls atomic.Int64
	say   func(token string, call int64) (authenticationv1.TokenReviewStatus, error)
}

func (a *asked) Review(_ context.Context, token string, _ []string) (authenticationv1.TokenReviewStatus, error) {
	return a.say(token, a.calls.Add(1))
}

func TestSelfTest(t *testing.T) {
	t.Parallel()
	yes, no := accepted(identity{monitor, "p", own, ownUID}), authenticationv1.TokenReviewStatus{}
	type say = func(string, int64) (authenticationv1.TokenReviewStatus, error)
	tests := map[string]struct {
		say  say
		want string // of the error that ends the connector; empty for a pass
		away bool   // not ready, and tried again
	}{
		"as it should be": {say: func(token string, _ int64) (authenticationv1.TokenReviewStatus, error) {
			if token == "ours" {
				return yes, nil
			}
			return no, nil
		}},
		"T14 our audience is an API server's": {say: func(token string, _ int64) (authenticationv1.TokenReviewStatus, error) {
			if token == probe {
				return no, nil
			}
			return yes, nil
		}, want: "self-test (a): the API server accepts our own API token"},
		"T12 the audience is not echoed": {say: func(token string, _ int64) (authenticationv1.TokenReviewStatus, error) {
			s := yes
			s.Audiences = nil
			if token == "ours" {
				return s, nil
			}
			return no, nil
		}, away: true},
		"T30 RBAC is missing": {say: func(string, int64) (authenticationv1.TokenReviewStatus, error) {
			return no, apierrors.NewForbidden(schema.GroupResource{Group: "authentication.k8s.io", Resource: "tokenreviews"}, "", errors.New("no"))
		}, want: `"create" on "tokenreviews"`},
		"the API server is away": {say: func(string, int64) (authenticationv1.TokenReviewStatus, error) { return no, errReset }, away: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSelfTest(t, &asked{say: tc.say})
			ctx, cancel := context.WithCancel(t.Context())
			if tc.away {
				go func() { <-s.Tried(); cancel() }()
			}
			err := s.Run(ctx)
			cancel()
			switch {
			case tc.want == "" && (err != nil && !errors.Is(err, errAway)):
				t.Errorf("ended: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%v, want %q", err, tc.want)
			}
			if passed := s.Check() == nil; passed != (tc.want == "" && !tc.away) {
				t.Errorf("passed = %t", passed)
			}
		})
	}
}

func newSelfTest(t *testing.T, b tokenreview.Backend) *SelfTest {
	t.Helper()
	dir := t.TempDir()
	ours, api := filepath.Join(dir, "ours"), filepath.Join(dir, "api")
	must(t, os.WriteFile(ours, []byte("ours\n"), 0o600))
	must(t, os.WriteFile(api, []byte("api\n"), 0o600))
	s, err := NewSelfTest(SelfTestOptions{Backend: b, Audience: audience, TokenFile: ours, APIFile: api, Every: time.Millisecond, Log: logr.Discard()})
	must(t, err)
	return s
}

// TestNobodyIsReviewedBeforeTheSelfTest starts while the API server is away, which then comes back.
func TestNobodyIsReviewedBeforeTheSelfTest(t *testing.T) {
	t.Parallel()
	back := make(chan struct{})
	b := &asked{say: func(token string, _ int64) (authenticationv1.TokenReviewStatus, error) {
		select {
		case <-back:
		default:
			return authenticationv1.TokenReviewStatus{}, errReset
		}
		if token == probe || token == "api" {
			return authenticationv1.TokenReviewStatus{}, nil
		}
		return accepted(identity{monitor, "p", own, ownUID}), nil
	}}
	s := newSelfTest(t, b)
	done := make(chan error, 1)
	go func() { done <- s.Run(t.Context()) }()
	timing.Next(t, time.Minute, "the self-test is tried", s.Tried())
	if _, err := s.Review(t.Context(), "stranger", nil); err == nil || s.Check() == nil {
		t.Error("a stranger was reviewed before the self-test had passed")
	}
	close(back)
	must(t, timing.Next(t, time.Minute, "the self-test passes", done))
	if _, err := s.Review(t.Context(), "stranger", nil); err != nil || s.Check() != nil {
		t.Errorf("after: %v, %v", err, s.Check())
	}
}
