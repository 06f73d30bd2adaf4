package grant_test

import (
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
)

// question is all that a decision depends on.
type question struct {
	rules grant.Rules
	proof grant.Proof
	row   delegation.Row
	sub   delegation.Submission
	about grant.Attributes
	req   grant.Request
	now   time.Time
}

func (q question) decide() grant.Decision {
	return grant.Decide(q.rules, q.proof, q.row, q.sub, q.about, q.req, q.now)
}

// rule is one sentence of the specification: who is concerned, and why it is refused.
type rule struct {
	refuses func(question) bool
	with    grant.Reason
}

// plainRules state the decision a second time, as a list that is read from the top: the first that refuses is the answer.
func plainRules() []rule {
	isPod := func(q question) bool { return q.proof.Kind == delegation.Pod }
	left := func(q question, until time.Time) time.Duration { return until.Sub(q.now) }
	sub := func(q question) string { return q.sub.Submitter }
	return []rule{
		{func(q question) bool { return !q.rules.Enabled }, grant.Disabled},
		{func(q question) bool {
			return !(isPod(q) && q.req.SubjectTokenType == "urn:ietf:params:oauth:token-type:jwt") &&
				!(q.proof.Kind == "docker" && q.req.SubjectTokenType == "urn:nvidia:nemo:params:oauth:token-type:docker-opaque-workload-proof")
		}, grant.ProofMalformed},
		{func(q question) bool { return isPod(q) && q.proof.PodUID == "" }, grant.Unbound},
		{func(q question) bool {
			return isPod(q) && (q.proof.Username == "" || q.proof.Name == "" || q.proof.Namespace == "" || q.proof.ServiceAccount == "")
		}, grant.ReviewRejected},
		{func(q question) bool { return isPod(q) && left(q, q.proof.Expiry) <= 0 }, grant.SubjectExpired},
		{func(q question) bool { return isPod(q) && left(q, q.proof.Expiry) < 30*time.Second }, grant.SubjectExpiring},
		{func(q question) bool {
			return !isPod(q) && (q.row.ProofHash == "" || q.proof.Docker.Hash() != q.row.ProofHash || q.proof.Docker.Name != q.row.Name || q.proof.Name != q.row.Name)
		}, grant.HashMismatch},
		{func(q question) bool { return q.row.State == "" }, grant.RowAbsent},
		{func(q question) bool { return q.row.Name != q.proof.Name || q.row.Kind != q.proof.Kind }, grant.RowMismatch},
		{func(q question) bool {
			return isPod(q) && (q.row.Bound.Name != "authentication.kubernetes.io/pod-uid" || q.row.Bound.Value != q.proof.PodUID ||
				q.row.Namespace != q.proof.Namespace || q.row.ServiceAccount != q.proof.ServiceAccount)
		}, grant.RowMismatch},
		{func(q question) bool { return q.row.State == "REVOKED" }, grant.RowRevoked},
		{func(q question) bool { return left(q, q.row.ExpiresAt) <= 0 }, grant.RowExpired},
		{func(q question) bool { return q.row.State == "PENDING" }, grant.RowPending},
		{func(q question) bool { return q.row.State != "ACTIVE" }, grant.RowMismatch},
		{func(q question) bool { return isPod(q) && (q.proof.Node == "" || q.row.NodeName != q.proof.Node) }, grant.NodeMismatch},
		{func(q question) bool { return left(q, q.row.ExpiresAt) < 30*time.Second }, grant.RowExpiring},
		{func(q question) bool { return q.sub.UID == "" || q.row.SubmissionUID != q.sub.UID }, grant.SubmissionRevoked},
		{func(q question) bool {
			return (q.sub.State != "CONFIRMED" && q.sub.State != "CLOSED") || !q.sub.RevokedAt.IsZero() || sub(q) == ""
		}, grant.SubmissionRevoked},
		{func(q question) bool { return q.req.Audience != audience && q.req.Audience != second }, grant.AudienceDenied},
		{func(q question) bool { return !contains(q.sub.Audiences, q.req.Audience) }, grant.AudienceNotGranted},
		{func(q question) bool { return sub(q) == "service:x" || sub(q) == "SERVICE:x" }, grant.SubmitterReserved},
		{func(q question) bool { return sub(q) == "system:node:n1" || sub(q) == "System:serviceaccount:ci:bot" }, grant.SubmitterReserved},
		{func(q question) bool {
			return len(sub(q)) > 512 || sub(q) == "al ice" || sub(q) == "alicé" || sub(q) == "alice\n"
		}, grant.IdentityInvalid},
		{func(q question) bool { return isPod(q) && len(q.proof.Username) > 512 }, grant.IdentityInvalid},
	}
}

func contains(list []string, word string) bool {
	for _, w := range list {
		if w == word {
			return true
		}
	}
	return false
}

// plainly is the reason of the first rule that refuses, or the expiry of the token.
func plainly(q question) (grant.Reason, int64) {
	for _, r := range plainRules() {
		if r.refuses(q) {
			return r.with, 0
		}
	}
	ends := []time.Time{q.now.Add(q.rules.TTL), q.row.ExpiresAt}
	if q.proof.Kind == delegation.Pod {
		ends = append(ends, q.proof.Expiry)
	}
	soonest := ends[0]
	for _, end := range ends {
		if end.Before(soonest) {
			soonest = end
		}
	}
	return "", soonest.Unix()
}
