package exchange

import (
	"context"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// The kinds of record, as paths name them.
const (
	kindSubmission = "submission"
	kindDelegation = "delegation"
)

// adminTimeout bounds what an admin's request does in the database, maxPatch its body.
const (
	adminTimeout = 10 * time.Second
	maxPatch     = 4 << 10
)

// submissionRecord is a submission as it is shown.
type submissionRecord struct {
	UID         string    `json:"uid"`
	GroupKind   string    `json:"group_kind"`
	Cluster     string    `json:"cluster"`
	Namespace   string    `json:"namespace"`
	Name        string    `json:"name"`
	Submitter   string    `json:"submitter"`
	ViaUID      string    `json:"via_uid,omitzero"`
	Audiences   []string  `json:"audiences"`
	Scopes      []string  `json:"scopes"`
	State       string    `json:"state"`
	ConfirmedAt time.Time `json:"confirmed_at"`
	ClosedAt    time.Time `json:"closed_at,omitzero"`
	RevokedAt   time.Time `json:"revoked_at,omitzero"`
	Reason      string    `json:"reason,omitzero"`
}

// rowRecord is a row as it is shown. Its hash is told to be there and no more.
type rowRecord struct {
	Name           string    `json:"name"`
	Kind           string    `json:"kind"`
	Submission     string    `json:"submission"`
	ReferenceName  string    `json:"bound_reference_name"`
	ReferenceValue string    `json:"bound_reference_value"`
	Namespace      string    `json:"namespace"`
	ServiceAccount string    `json:"service_account"`
	NodeName       string    `json:"node_name"`
	ProofHash      string    `json:"proof_hash,omitzero"`
	State          string    `json:"state"`
	Expired        bool      `json:"expired"`
	Rev            int64     `json:"rev"`
	CreatedAt      time.Time `json:"created_at"`
	ExpiresAt      time.Time `json:"expires_at"`
	RevokedAt      time.Time `json:"revoked_at,omitzero"`
	Reason         string    `json:"reason,omitzero"`
}

// page is a list; after is the last record's, for the next page, and empty at the end.
type page[T any] struct {
	Items []T    `json:"items"`
	After string `json:"after"`
}

// revoked is the answer to a revocation.
type revoked struct {
	Submissions int `json:"submissions_revoked"`
	Rows        int `json:"rows_revoked"`
}

// patch is the one change that there is, as a JSON merge patch: {"revoked": true}. Revoking is final: false is refused.
type patch struct {
	Revoked   *bool `json:"revoked"`
	submitter string
}

// redacted stands where a hash would.
const redacted = "[redacted]"

func showSubmission(s delegation.Submission) submissionRecord {
	return submissionRecord{
		UID: s.UID, GroupKind: s.GroupKind, Cluster: s.Cluster, Namespace: s.Namespace, Name: s.Name, Submitter: s.Submitter, ViaUID: s.ViaUID,
		Audiences: append([]string{}, s.Audiences...), Scopes: append([]string{}, s.Scopes...), State: string(s.State),
		ConfirmedAt: s.ConfirmedAt, ClosedAt: s.ClosedAt, RevokedAt: s.RevokedAt, Reason: string(s.Reason),
	}
}

func showRow(r delegation.Row, now time.Time) rowRecord {
	out := rowRecord{
		Name: r.Name, Kind: string(r.Kind), Submission: r.SubmissionUID, ReferenceName: r.Bound.Name, ReferenceValue: r.Bound.Value,
		Namespace: r.Namespace, ServiceAccount: r.ServiceAccount, NodeName: r.NodeName, State: string(r.State), Expired: r.Expired(now), Rev: r.Rev,
		CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, RevokedAt: r.RevokedAt, Reason: string(r.Reason),
	}
	if r.ProofHash != "" {
		out.ProofHash = redacted
	}
	return out
}

// serve does what an authorized admin asks.
func (d *Admin) serve(r *http.Request, a *admin) (int, any) {
	ctx, cancel := context.WithTimeout(r.Context(), adminTimeout)
	defer cancel()
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return a.fail(http.StatusBadRequest, adminInvalid, "the query cannot be read")
	}
	var body any
	switch a.verb {
	case VerbGet:
		body, err = d.get(ctx, a)
	case VerbList:
		body, err = d.list(ctx, a, query)
	case VerbPatch:
		return d.revoke(ctx, r, a, query)
	default:
		return a.fail(http.StatusNotFound, adminNotFound, "there is nothing at this path")
	}
	if err != nil {
		return d.failed(a, err)
	}
	a.outcome = adminDone
	return http.StatusOK, body
}

func (d *Admin) get(ctx context.Context, a *admin) (any, error) {
	if a.kind == kindSubmission {
		s, err := d.o.Records.Submission(ctx, a.name)
		return showSubmission(s), err
	}
	got, err := d.o.Records.Get(ctx, a.name)
	return showRow(got.Row, d.o.Now()), err
}

// defaultPage is how long a page is where nobody says.
const defaultPage = 100

func (d *Admin) list(ctx context.Context, a *admin, q url.Values) (any, error) {
	limit := defaultPage
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > delegation.MaxPage {
			return nil, delegation.ErrInvalid
		}
		limit = n
	}
	if a.kind == kindSubmission {
		found, err := d.o.Records.Submissions(ctx, delegation.SubmissionQuery{
			State: delegation.SubmissionState(q.Get("state")), Submitter: q.Get("submitter"), After: q.Get("after"), Limit: limit,
		})
		return paged(found, limit, showSubmission, func(s submissionRecord) string { return s.UID }), err
	}
	now := d.o.Now()
	found, err := d.o.Records.Rows(ctx, delegation.RowQuery{
		Kind: delegation.Kind(q.Get("kind")), State: delegation.RowState(q.Get("state")), Submission: q.Get("submission"), After: q.Get("after"), Limit: limit,
	})
	return paged(found, limit, func(r delegation.Row) rowRecord { return showRow(r, now) }, func(r rowRecord) string { return r.Name }), err
}

func paged[R, T any](found []R, limit int, show func(R) T, name func(T) string) page[T] {
	p := page[T]{Items: make([]T, 0, len(found))}
	for _, r := range found {
		p.Items = append(p.Items, show(r))
	}
	if len(found) == limit && limit > 0 {
		p.After = name(p.Items[len(found)-1])
	}
	return p
}

// revoke ends a row, a submission with its rows, or, without a name, all that a submitter has.
func (d *Admin) revoke(ctx context.Context, r *http.Request, a *admin, q url.Values) (int, any) {
	if status, body := d.readPatch(r, a); status != 0 {
		return status, body
	}
	what := delegation.Revocation{At: d.o.Now()}
	switch submitters := q["submitter"]; {
	case a.kind == kindDelegation && a.name != "" && len(q) == 0:
		what.Row, what.Reason = a.name, delegation.RowRevoked
	case a.kind == kindSubmission && a.name != "" && len(q) == 0:
		what.Submission, what.Reason = a.name, delegation.SubmissionRevoked
	case a.kind == kindSubmission && a.name == "" && len(q) == 1 && len(submitters) == 1 && submitters[0] != "":
		what.Submitter, what.Reason = submitters[0], delegation.SubmitterRevoked
		a.patch.submitter = what.Submitter
	default:
		return a.fail(http.StatusBadRequest, adminInvalid, "name one record, or one submitter of submissions (?submitter=NAME)")
	}
	ended, err := d.o.Records.Revoke(ctx, what)
	if err != nil {
		return d.failed(a, err)
	}
	d.o.Revoked(ctx)
	a.outcome, a.ended = adminDone, ended
	return http.StatusOK, revoked{Submissions: ended.Submissions, Rows: ended.Rows}
}

// readPatch reads {"revoked": true}, and nothing else.
func (d *Admin) readPatch(r *http.Request, a *admin) (int, any) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || (media != "application/merge-patch+json" && media != "application/json") {
		return a.fail(http.StatusUnsupportedMediaType, adminInvalid, "the body must be of type application/merge-patch+json")
	}
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxPatch+1))
	if err != nil || len(raw) > maxPatch || json.Unmarshal(raw, &a.patch, json.RejectUnknownMembers(true)) != nil {
		return a.fail(http.StatusBadRequest, adminInvalid, `the body must be {"revoked": true}`)
	}
	if a.patch.Revoked == nil || !*a.patch.Revoked {
		return a.fail(http.StatusBadRequest, adminInvalid, `the body must be {"revoked": true}; what is revoked stays revoked`)
	}
	return 0, nil
}
