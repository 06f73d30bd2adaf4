package tokenreview

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	typed "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// Backend asks somebody who knows whether a token is genuine. An error means that there was no answer.
type Backend interface {
	Review(ctx context.Context, token string, audiences []string) (authenticationv1.TokenReviewStatus, error)
}

// APIServer is the Backend that asks a Kubernetes API server. Its account needs the rule that RuleHint names.
type APIServer struct {
	client rest.Interface
}

// NewAPIServer returns a Backend for the API server of a client configuration. The configuration's rate limits are not
// used: a Reviewer has its own, and client-go's five a second have held up others for minutes.
func NewAPIServer(config *rest.Config) (*APIServer, error) {
	if config == nil {
		return nil, errors.New("tokenreview: a client configuration is needed")
	}
	c := rest.CopyConfig(config)
	c.QPS, c.Burst, c.RateLimiter = -1, 0, nil
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	c.WarningHandler, c.WarningHandlerWithContext = nil, rest.NoWarnings{}
	client, err := typed.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("making a client for token reviews: %w", err)
	}
	return &APIServer{client: client.RESTClient()}, nil
}

// Review asks once. It does not retry: client-go would, up to ten times and past any circuit breaker, where the API server
// sends Retry-After. Neither does it log: at high verbosity client-go writes out what it sends and gets, and both hold the token.
func (a *APIServer) Review(ctx context.Context, token string, audiences []string) (authenticationv1.TokenReviewStatus, error) {
	ctx = klog.NewContext(ctx, logr.Discard())
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences}}
	answer := &authenticationv1.TokenReview{}
	err := a.client.Post().
		Resource("tokenreviews").
		VersionedParams(&metav1.CreateOptions{}, scheme.ParameterCodec).
		Body(review).
		MaxRetries(0).
		Do(ctx).
		Into(answer)
	return answer.Status, err
}

// RuleHint tells an operator which rule is missing when the API server does not let us review.
const RuleHint = `the account needs "create" on "tokenreviews" in "authentication.k8s.io", as in the ClusterRole system:auth-delegator`

// credentialHint is for an API server that does not know us at all.
const credentialHint = "the API server does not accept our own credentials; is the token that the program runs with still valid?"

// retryAfterAtMost bounds what an API server may ask for.
const retryAfterAtMost = 30 * time.Second

// Classify turns the error of a Backend that brought no answer into an Error, for whoever asks one without a Reviewer. Its text holds nothing
// of the token.
func Classify(err error, token string) *Error { return classify(err, token) }

// classify turns a review that brought no answer into an Error. What the API server holds against us or our request is
// internal; everything that passes, the network's errors included, is unavailable.
func classify(err error, token string) *Error {
	detail := scrubbed(err.Error(), token)
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return unavailable("the API server was not reached: " + detail)
	}
	code := int(status.Status().Code)
	switch {
	case code == http.StatusForbidden:
		return &Error{Reason: ValidatorError, Detail: detail, Hint: RuleHint}
	case code == http.StatusUnauthorized:
		return &Error{Reason: ValidatorError, Detail: detail, Hint: credentialHint}
	case code == http.StatusTooManyRequests, code == http.StatusRequestTimeout, code >= 500, code == 0:
		e := unavailable("the API server gave no answer: " + detail)
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
			e.RetryAfter = min(time.Duration(seconds)*time.Second, retryAfterAtMost)
		}
		return e
	default:
		return &Error{Reason: ValidatorError, Detail: detail}
	}
}
