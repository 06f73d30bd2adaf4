package exchange

import (
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
)

// The keys of an audit line.
const (
	keyOutcome    = "outcome"
	keyReason     = "reason"
	keyRow        = "row"
	keySubmission = "submission"
	keySubject    = "subject"
	keyActor      = "actor"
	keyFrom       = "from"
)

// line writes the one audit line of a token request, granted or refused. It names the token by its id and the subject token by its
// own, and holds neither.
func (d *Desk) line(a *asked, gone bool) {
	values := []any{keyOutcome, outcomeOf(a, gone), keyFrom, a.from, "subjectTokenType", kindOf(a.kind), "audience", a.audience}
	if a.proof.Name != "" {
		values = append(values, keyRow, a.proof.Name)
	}
	if a.proof.Kind == delegation.Pod {
		values = append(values, keyActor, a.proof.Username, "podUID", a.proof.PodUID, "node", a.proof.Node, "credentialID", a.credID)
	}
	if a.uid != "" {
		values = append(values, keySubmission, a.uid)
	}
	if a.held > 0 {
		values = append(values, "heldMilliseconds", a.held.Milliseconds())
	}
	if a.claims != nil {
		values = append(values, keySubject, a.subject, "jti", a.claims.ID, "kid", a.key, "exp", a.claims.Expiry)
		d.audit.Info("token granted", values...)
		return
	}
	if a.detail != "" {
		values = append(values, "detail", a.detail)
	}
	d.audit.Info("token refused", values...)
}

// kindOf names a subject token type, and nothing that a client made up.
func kindOf(tokenType string) string {
	switch tokenType {
	case grant.TokenTypeJWT:
		return string(delegation.Pod)
	case grant.TokenTypeDocker:
		return string(delegation.Docker)
	default:
		return ""
	}
}
