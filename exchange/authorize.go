package exchange

import (
	"context"
	"errors"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// AccessReviews is client-go's interface of SubjectAccessReviews.
type AccessReviews interface {
	Create(ctx context.Context, r *authorizationv1.SubjectAccessReview, o metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error)
}

// accessTimeout bounds one question.
const accessTimeout = 5 * time.Second

// AccessReview asks the API server's RBAC. Its zero value refuses by an error.
type AccessReview struct{ API AccessReviews }

// Allowed asks whether a service account may do something with records (group lanyard.dev, resource records). The groups and extras are
// those that the API server itself gives to the token's owner, so that any rule which would hold there holds here.
func (s AccessReview) Allowed(ctx context.Context, who tokenreview.Verdict, verb Verb, name string) (bool, error) {
	if s.API == nil {
		return false, errors.New("ask for an admin's right: no client")
	}
	ctx, cancel := context.WithTimeout(ctx, accessTimeout)
	defer cancel()
	answer, err := s.API.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: wire.AdminGroup, Resource: wire.ResourceRecords, Verb: string(verb), Name: name, Version: "*",
		},
		User:   who.Username,
		UID:    who.UID,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + who.Namespace, "system:authenticated"},
		Extra:  extra(who),
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("ask for an admin's right: %w", err)
	}
	return answer.Status.Allowed && !answer.Status.Denied, nil
}

// extra is what a review tells of a token, given back.
func extra(who tokenreview.Verdict) map[string]authorizationv1.ExtraValue {
	out := map[string]authorizationv1.ExtraValue{}
	for name, value := range map[string]string{
		"pod-name": who.PodName, "pod-uid": who.PodUID, "node-name": who.NodeName, "node-uid": who.NodeUID, "credential-id": who.CredentialID,
	} {
		if value != "" {
			out["authentication.kubernetes.io/"+name] = authorizationv1.ExtraValue{value}
		}
	}
	return out
}
