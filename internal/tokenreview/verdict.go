package tokenreview

import (
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// Verdict is whose a token is, as the API server says. The zero value is nobody.
type Verdict struct {
	// Username is "system:serviceaccount:<Namespace>:<ServiceAccount>", UID the service account's.
	Username       string
	Namespace      string
	ServiceAccount string
	UID            string
	// PodName and PodUID are empty unless the token is bound to a pod.
	PodName string
	PodUID  string
	// NodeName and NodeUID are empty on old API servers and for a pod that was never scheduled. A node that did not exist
	// when the token was made has a name without a UID. A token bound to a node itself has them and no pod.
	NodeName string
	NodeUID  string
	// CredentialID names the token in logs, "JTI=<uuid>"; empty on old API servers.
	CredentialID string
	// Expiry is the token's own; Judge leaves it zero, since a review does not tell.
	Expiry time.Time
}

// Bound says whether the token is bound to a pod.
func (v Verdict) Bound() bool { return v.PodUID != "" }

// identityHint tells who says yes without a name.
const identityHint = "look at the API server's authenticators; one of them accepts tokens without naming a user"

// The keys of what a review tells beyond the user, and the group of every service account.
const (
	extraPodName      = "authentication.kubernetes.io/pod-name"
	extraPodUID       = "authentication.kubernetes.io/pod-uid"
	extraNodeName     = "authentication.kubernetes.io/node-name"
	extraNodeUID      = "authentication.kubernetes.io/node-uid"
	extraCredentialID = "authentication.kubernetes.io/credential-id"
	accountsGroup     = "system:serviceaccounts"
)

// Judge believes a review only where every part of it fits: a reviewer that does not know audiences, an authenticator that
// lets strangers in as system:anonymous, an error beside a yes, or two values where one belongs are all refused, with
// TokenInvalid. Nothing is trimmed. A yes that names nobody is no verdict about the token (ValidatorError): whose it is was never said,
// and the fault is the reviewer's.
func Judge(s authenticationv1.TokenReviewStatus, audience string) (Verdict, error) {
	if err := admitted(s, audience); err != nil {
		return Verdict{}, err
	}
	account, err := wire.ParseUsername(s.User.Username)
	switch {
	case s.User.Username == "":
		return Verdict{}, &Error{Reason: ValidatorError, Detail: "the review says yes and returns no identity", Hint: identityHint}
	case err != nil:
		return Verdict{}, invalid("the review names a user that is no service account")
	case !slices.Contains(s.User.Groups, accountsGroup):
		return Verdict{}, invalid("the review names a user outside the group of service accounts")
	case s.User.UID == "":
		return Verdict{}, invalid("the review names a user without a UID")
	}
	v := Verdict{Username: s.User.Username, Namespace: account.Namespace, ServiceAccount: account.Name, UID: s.User.UID}
	for key, into := range map[string]*string{
		extraPodName: &v.PodName, extraPodUID: &v.PodUID, extraNodeName: &v.NodeName, extraNodeUID: &v.NodeUID,
		extraCredentialID: &v.CredentialID,
	} {
		values, given := s.User.Extra[key]
		switch {
		case !given:
		case len(values) != 1:
			return Verdict{}, invalid("the review is ambiguous: it must give " + key + " one value or none")
		default:
			*into = values[0]
		}
	}
	return v, nil
}

// admitted checks what the review says of the token itself.
func admitted(s authenticationv1.TokenReviewStatus, audience string) error {
	switch {
	case !s.Authenticated && s.Error != "":
		return invalid("the review says no: " + s.Error)
	case !s.Authenticated:
		return invalid("the review says no")
	case s.Error != "":
		return invalid("the review says yes with an error: " + s.Error)
	case audience == "" || !slices.Contains(s.Audiences, audience):
		return invalid("the review does not echo our audience")
	default:
		return nil
	}
}
