package connector

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/lanyard-k8s/lanyard/internal/tokenfile"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// SelfTest tries token reviews before anybody depends on them:
//
//	(a) our own token for the API server must be refused for our audience; were it accepted, our audience would be one of
//	    the API server's own, and every token in the cluster would do
//	(b) a token of our own made for our audience must be accepted, with the audience echoed
//	(c) a review that RBAC refuses names the rule that is missing
//
// It is a tokenreview.Backend too: until it has passed, nobody else's token is reviewed. So a connector that starts while the
// API server is away can serve those who need no review, and trusts no answer before it knows what answers are worth.
type SelfTest struct {
	backend  tokenreview.Backend
	audience string
	ours     string // file of a token for our audience; empty skips (b)
	api      string // file of our token for the API server; empty skips (a)
	every    time.Duration
	clock    clock.Clock
	log      logr.Logger
	pass     func()
	passed   atomic.Bool
	tried    chan struct{}
}

// SelfTestOptions make a SelfTest.
type SelfTestOptions struct {
	Backend   tokenreview.Backend
	Audience  string
	TokenFile string
	APIFile   string
	// Every is the pause between attempts while the API server is away; 2 s when zero.
	Every time.Duration
	// Passed is told once that the API server reviews tokens for us, before the first of somebody else is reviewed; nil is nobody.
	Passed func()
	Clock  clock.Clock
	Log    logr.Logger
}

// probe is a token that nobody has issued: what comes back shows whether we may ask at all.
const probe = "eyJhbGciOiJub25lIn0.e30.bGFueWFyZA"

// probeTimeout bounds one review.
const probeTimeout = 2 * time.Second

// NewSelfTest checks that nothing is missing, and says which tests are left out.
func NewSelfTest(o SelfTestOptions) (*SelfTest, error) {
	if o.Backend == nil || o.Audience == "" {
		return nil, errors.New("self-test: a backend or an audience is missing")
	}
	if o.Every == 0 {
		o.Every = 2 * time.Second
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Passed == nil {
		o.Passed = func() {}
	}
	if o.APIFile == "" {
		o.Log.Info("self-test (a) is skipped: selfTest.apiTokenFile names no file")
	}
	if o.TokenFile == "" {
		o.Log.Info("self-test (b) is skipped: selfTest.tokenFile names no file")
	}
	return &SelfTest{
		backend: o.Backend, audience: o.Audience, ours: o.TokenFile, api: o.APIFile, every: o.Every, clock: o.Clock, log: o.Log, pass: o.Passed,
		tried: make(chan struct{}),
	}, nil
}

// errAway means that the test could not be made.
var errAway = errors.New("the API server cannot be asked")

// Run tests until the test has passed, and returns then; or returns why the connector must not run. An API server that is
// away, and a token that it does not know yet, are waited for.
func (s *SelfTest) Run(ctx context.Context) error {
	for first := true; ; first = false {
		err := s.once(ctx)
		if err == nil {
			s.pass()
			s.passed.Store(true)
			s.log.Info("self-test passed")
		} else if errors.Is(err, errAway) {
			s.log.Error(err, "self-test could not be made")
		}
		if first && (err == nil || errors.Is(err, errAway)) {
			close(s.tried)
		}
		if err == nil || !errors.Is(err, errAway) || ctx.Err() != nil {
			return err
		}
		timer := s.clock.NewTimer(s.every)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// Tried is closed when the first attempt has come to an end, unless that was the end of the connector too.
func (s *SelfTest) Tried() <-chan struct{} { return s.tried }

// Check is nil once the test has passed.
func (s *SelfTest) Check() error {
	if s.passed.Load() {
		return nil
	}
	return errors.New("the self-test of token reviews has not passed")
}

// Review is the backend's, once the test has passed.
func (s *SelfTest) Review(ctx context.Context, token string, audiences []string) (authenticationv1.TokenReviewStatus, error) {
	if !s.passed.Load() {
		return authenticationv1.TokenReviewStatus{}, errors.New("the self-test has not passed yet")
	}
	return s.backend.Review(ctx, token, audiences)
}

func (s *SelfTest) once(ctx context.Context) error {
	if _, err := s.review(ctx, probe); err != nil {
		return err
	}
	if s.api != "" {
		token, err := tokenfile.Read(s.api)
		if err != nil {
			return fmt.Errorf("self-test: %w", err)
		}
		status, err := s.review(ctx, token)
		switch {
		case err != nil:
			return err
		case status.Authenticated:
			return fmt.Errorf("self-test (a): the API server accepts our own API token for the audience %q, so that the audience is one of its own and every token in the cluster would be accepted; choose another AuthAudience", s.audience)
		}
	}
	if s.ours == "" {
		return nil
	}
	token, err := tokenfile.Read(s.ours)
	if err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	status, err := s.review(ctx, token)
	if err != nil {
		return err
	}
	if _, err := tokenreview.Judge(status, s.audience); err != nil {
		// A pod's token is unknown to an API server that has not heard of the pod yet, so this is tried again.
		return fmt.Errorf("%w: self-test (b): our own token for the audience %q is refused", errAway, s.audience)
	}
	return nil
}

// review asks once. What RBAC refuses does not mend itself while we wait.
func (s *SelfTest) review(ctx context.Context, token string) (authenticationv1.TokenReviewStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	status, err := s.backend.Review(ctx, token, []string{s.audience})
	switch {
	case err == nil:
		return status, nil
	case apierrors.IsForbidden(err):
		return status, fmt.Errorf("self-test (c): the API server does not let us review tokens: %s", tokenreview.RuleHint)
	case apierrors.IsUnauthorized(err):
		return status, fmt.Errorf("%w: self-test (c): it does not accept our own credentials", errAway)
	default:
		return status, fmt.Errorf("%w: %s", errAway, tokenreview.Classify(err, token).Detail) // the cause itself may quote the token
	}
}
