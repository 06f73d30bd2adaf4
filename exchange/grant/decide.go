package grant

import (
	"slices"
	"strings"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// Proof is a verified subject token. The zero Proof proves nothing.
type Proof struct {
	// Kind is which verifier accepted it.
	Kind delegation.Kind
	// Name is the row that belongs to it: delegation.PodName of what the review said, or the Docker proof's own.
	Name string
	// Username, Namespace, ServiceAccount, PodUID and Node are what the review said of a pod's token.
	Username       string
	Namespace      string
	ServiceAccount string
	PodUID         string
	Node           string
	// Expiry is the pod's token's own.
	Expiry time.Time
	// Docker is a container's proof. Its secret is compared here, with the row's hash or with a dummy.
	Docker delegation.Proof
}

// Claims is an access token's payload (RFC 9068 section 2.2, RFC 8693 section 4.1), but for its id, which is random and therefore set by
// whoever signs it.
type Claims struct {
	Issuer    string `json:"iss"`
	Subject   string `json:"sub"`
	Email     string `json:"email,omitempty"`
	Groups    string `json:"groups,omitempty"`
	Actor     Actor  `json:"act"`
	Audience  string `json:"aud"`
	IssuedAt  int64  `json:"iat"`
	NotBefore int64  `json:"nbf"`
	Expiry    int64  `json:"exp"`
	ID        string `json:"jti"`
	ClientID  string `json:"client_id"`
	Scope     string `json:"scope,omitempty"`
}

// Actor is who acts for the subject: the workload.
type Actor struct {
	Subject string `json:"sub"`
}

// ExpiresIn is the token's life in seconds.
func (c Claims) ExpiresIn() int64 { return c.Expiry - c.IssuedAt }

// Decision is the claims or the refusal. The zero Decision grants nothing and is a fault of ours.
type Decision struct {
	// Claims are nil unless a token is granted.
	Claims *Claims
	// Refusal says why not.
	Refusal Refusal
	// Dropped counts groups and addresses that a token must not carry.
	Dropped int
}

// Decide answers a request whose proof was verified. The proof comes before the row, so that whoever has no proof learns nothing
// about rows; among the row's own faults the final ones come before those that waiting mends.
func Decide(r Rules, p Proof, row delegation.Row, submission delegation.Submission, about Attributes, q Request, now time.Time) Decision {
	if !r.Enabled {
		return refused(Disabled)
	}
	for _, why := range []Reason{proofFault(p, row, q, now), rowFault(p, row, now), submissionFault(r, p, row, submission, q)} {
		if why != "" {
			return refused(why)
		}
	}
	return granted(r, p, row, submission, about, q, now)
}

func refused(why Reason) Decision { return Decision{Refusal: Refuse(why)} }

// proofFault checks the proof against the request, and a secret against the row's hash.
func proofFault(p Proof, row delegation.Row, q Request, now time.Time) Reason {
	switch {
	case p.Kind == delegation.Pod && q.SubjectTokenType == TokenTypeJWT:
		return podFault(p, now)
	case p.Kind == delegation.Docker && q.SubjectTokenType == TokenTypeDocker:
		if !p.Docker.Matches(row.ProofHash) || p.Docker.Name != p.Name || row.Name != p.Name {
			return HashMismatch // an unknown row is the zero row, whose hash is compared as well
		}
		return ""
	default:
		return ProofMalformed
	}
}

func podFault(p Proof, now time.Time) Reason {
	left := p.Expiry.Sub(now)
	switch {
	case p.PodUID == "":
		return Unbound
	case p.Username == "" || p.Namespace == "" || p.ServiceAccount == "" || p.Name == "":
		return ReviewRejected
	case left <= 0:
		return SubjectExpired
	case left < MinLeft:
		return SubjectExpiring
	default:
		return ""
	}
}

// rowFault checks that the row stands for the proof's workload, and that it is active.
func rowFault(p Proof, row delegation.Row, now time.Time) Reason {
	left := row.ExpiresAt.Sub(now)
	switch {
	case row.State == "":
		return RowAbsent
	case row.Name != p.Name || row.Kind != p.Kind:
		return RowMismatch
	case p.Kind == delegation.Pod && (row.Bound != delegation.Reference{Name: delegation.ReferencePodUID, Value: p.PodUID} ||
		row.Namespace != p.Namespace || row.ServiceAccount != p.ServiceAccount):
		return RowMismatch
	case row.State == delegation.Revoked:
		return RowRevoked
	case left <= 0:
		return RowExpired
	case row.State == delegation.Pending:
		return RowPending
	case row.State != delegation.Active:
		return RowMismatch
	case p.Kind == delegation.Pod && (row.NodeName == "" || row.NodeName != p.Node):
		return NodeMismatch
	case left < MinLeft:
		return RowExpiring
	default:
		return ""
	}
}

// submissionFault checks whom the row speaks for, and whether it may be asked for this audience.
func submissionFault(r Rules, p Proof, row delegation.Row, s delegation.Submission, q Request) Reason {
	switch {
	case row.SubmissionUID == "" || row.SubmissionUID != s.UID || !s.Live():
		return SubmissionRevoked
	case !slices.Contains(r.Audiences, q.Audience):
		return AudienceDenied
	case !slices.Contains(s.Audiences, q.Audience):
		return AudienceNotGranted
	case r.Reserved(s.Submitter):
		return SubmitterReserved
	case !validID(s.Submitter) || !validID(actor(p)):
		return IdentityInvalid
	default:
		return ""
	}
}

// actor is who acts: the verified username, or the row of a container.
func actor(p Proof) string {
	if p.Kind == delegation.Pod {
		return p.Username
	}
	return p.Name
}

// granted makes the claims. Times are cut to whole seconds, which shortens a life and never lengthens it.
func granted(r Rules, p Proof, row delegation.Row, s delegation.Submission, about Attributes, q Request, now time.Time) Decision {
	expiry := earliest(now.Add(r.TTL), row.ExpiresAt)
	if p.Kind == delegation.Pod {
		expiry = earliest(expiry, p.Expiry)
	}
	c := &Claims{
		Issuer: r.Issuer, Subject: s.Submitter, Actor: Actor{Subject: actor(p)}, Audience: q.Audience, ClientID: r.ClientID,
		IssuedAt: now.Unix(), NotBefore: now.Unix(), Expiry: expiry.Unix(), Scope: narrowed(r, s, q),
	}
	d := Decision{Claims: c}
	if about.trusted() && r.Email {
		c.Email, d.Dropped = about.email()
	}
	if about.trusted() && r.Groups {
		groups, dropped := about.groups()
		c.Groups, d.Dropped = groups, d.Dropped+dropped
	}
	return d
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// narrowed is what was asked for, less what the rules or the submission do not allow.
func narrowed(r Rules, s delegation.Submission, q Request) string {
	var words []string
	for _, word := range q.Scopes {
		if slices.Contains(r.Scopes, word) && slices.Contains(s.Scopes, word) {
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}
