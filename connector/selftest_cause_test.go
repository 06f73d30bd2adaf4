package connector

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lanyard-k8s/lanyard/internal/obs"
)

// TestTheSelfTestSaysWhyItCouldNotBeMade: a wrong CA, a name that does not resolve and an API server without reviews are mended in
// different places. What is logged holds nothing of our own token.
func TestTheSelfTestSaysWhyItCouldNotBeMade(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: "authentication.k8s.io", Resource: "tokenreviews"}
	asking := func(err error) error { return &url.Error{Op: "Post", URL: "https://10.0.0.1/apis", Err: err} }
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"another CA":            {asking(x509.UnknownAuthorityError{}), "x509: certificate signed by unknown authority"},
		"no such name":          {asking(&net.DNSError{Err: "no such host", Name: "kubernetes.default.svc", IsNotFound: true}), "lookup kubernetes.default.svc: no such host"},
		"reviews are not there": {apierrors.NewNotFound(resource, ""), "not found"},
		"a request it dislikes": {apierrors.NewBadRequest("the object provided is unrecognized"), "unrecognized"},
		"it quotes the token":   {apierrors.NewBadRequest("what is marked.and.secret?"), "what is [token]?"},
		"credentials":           {apierrors.NewUnauthorized("x"), "does not accept our own credentials"},
		"an overload":           {apierrors.NewTooManyRequests("please wait", 1), "please wait"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			logs, ours := &safeBuffer{}, filepath.Join(t.TempDir(), "ours")
			must(t, os.WriteFile(ours, []byte("marked.and.secret"), 0o600))
			log, err := obs.NewLogger(logs, "debug")
			must(t, err)
			b := &asked{say: func(token string, _ int64) (authenticationv1.TokenReviewStatus, error) {
				if token == probe {
					return authenticationv1.TokenReviewStatus{}, nil
				}
				return authenticationv1.TokenReviewStatus{}, tc.err
			}}
			s, err := NewSelfTest(SelfTestOptions{Backend: b, Audience: audience, TokenFile: ours, Every: time.Millisecond, Log: log})
			must(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-s.Tried(); cancel() }()
			if err := s.Run(ctx); err != nil && !errors.Is(err, errAway) {
				t.Errorf("it ends the connector: %v", err)
			}
			cancel()
			if text := logs.String(); !strings.Contains(text, tc.want) || strings.Contains(text, "marked") || strings.Contains(text, "secret") {
				t.Errorf("want %q in the log and nothing of the token:\n%s", tc.want, text)
			}
			if s.Check() == nil {
				t.Error("it has passed")
			}
		})
	}
}

// TestThePassIsToldBeforeAnybodyIsReviewed: who hears of it knows that the API server lets us review, before the first token of somebody else.
func TestThePassIsToldBeforeAnybodyIsReviewed(t *testing.T) {
	t.Parallel()
	told := 0
	var s *SelfTest
	b := &asked{say: func(string, int64) (authenticationv1.TokenReviewStatus, error) {
		return authenticationv1.TokenReviewStatus{}, nil
	}}
	log, err := obs.NewLogger(&safeBuffer{}, "debug")
	must(t, err)
	s, err = NewSelfTest(SelfTestOptions{Backend: b, Audience: audience, Log: log, Passed: func() {
		if told++; s.Check() == nil {
			t.Error("others were reviewed before")
		}
	}})
	must(t, err)
	must(t, s.Run(t.Context()))
	if told != 1 || s.Check() != nil {
		t.Errorf("told %d times, %v", told, s.Check())
	}
}
