package exchange

import (
	"context"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// prove verifies the proof by the one verifier that its type names. Another is never tried: a proof under a wrong type is
// refused, so that no verifier's mistakes can be had by naming the other.
func (d *Desk) prove(ctx context.Context, q grant.Request, a *asked) grant.Reason {
	switch q.SubjectTokenType {
	case grant.TokenTypeJWT:
		return d.provePod(ctx, q.SubjectToken, a)
	case grant.TokenTypeDocker:
		return d.proveContainer(q.SubjectToken, a)
	default:
		return grant.SubjectTypeUnsupported
	}
}

// provePod asks the API server whose a service account token is, with the subject audience. The row's name is made from the
// audience that tokens are issued for by default, the verified username and the verified pod UID.
func (d *Desk) provePod(ctx context.Context, token string, a *asked) grant.Reason {
	v, err := d.reviewer.Review(ctx, token, d.callers.bucket(a.from))
	if err != nil {
		a.detail = err.Error() // holds no token
		return reviewReason(tokenreview.ReasonOf(err))
	}
	a.credID = v.CredentialID
	a.proof = grant.Proof{
		Kind: delegation.Pod, Username: v.Username, Namespace: v.Namespace, ServiceAccount: v.ServiceAccount,
		PodUID: v.PodUID, Node: v.NodeName, Expiry: v.Expiry,
	}
	if !v.Bound() {
		return grant.Unbound
	}
	a.proof.Name = delegation.PodName(d.rules.DefaultAudience, v.Username, v.PodUID)
	return ""
}

// reviewReason says in grant's words why there is no verdict. What is unknown is an outage and no verdict about the token.
func reviewReason(r tokenreview.Reason) grant.Reason {
	switch r {
	case tokenreview.TokenInvalid, tokenreview.PodNotLive:
		return grant.ReviewRejected
	case tokenreview.TokenExpired:
		return grant.SubjectExpired
	case tokenreview.RateLimited:
		return grant.RateLimited
	case tokenreview.ValidatorError:
		return grant.ReviewerRefused
	default:
		return grant.ReviewUnavailable
	}
}

// proveContainer takes a Docker proof apart. Its secret is compared later, with the row's hash or a dummy.
func (d *Desk) proveContainer(token string, a *asked) grant.Reason {
	if !d.callers.mayTry(a.from, d.now()) {
		return grant.RateLimited
	}
	p, err := delegation.ParseProof(token)
	if err != nil {
		d.callers.charge(a.from, d.now())
		return grant.ProofMalformed
	}
	a.proof = grant.Proof{Kind: delegation.Docker, Name: p.Name, Docker: p}
	return ""
}
