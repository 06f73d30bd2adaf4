package exchange

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// Verb is what an admin does with records, as RBAC names it.
type Verb string

// The verbs.
const (
	VerbGet   Verb = "get"
	VerbList  Verb = "list"
	VerbPatch Verb = "patch"
	verbNone  Verb = "" // nothing that this listener does
)

func adminVerbs() []Verb { return []Verb{VerbGet, VerbList, VerbPatch, verbNone} }

// adminOutcome is what an admin's request came to. Its text is a metric label.
type adminOutcome string

const (
	adminDone        adminOutcome = "done"
	adminNoToken     adminOutcome = "no_token"
	adminRefused     adminOutcome = "token_refused"
	adminForbidden   adminOutcome = "forbidden"
	adminInvalid     adminOutcome = "invalid"
	adminNotFound    adminOutcome = "not_found"
	adminUnavailable adminOutcome = "unavailable"
)

func adminOutcomes() []adminOutcome {
	return []adminOutcome{adminDone, adminNoToken, adminRefused, adminForbidden, adminInvalid, adminNotFound, adminUnavailable}
}

// Records is what admins read and revoke.
type Records interface {
	delegation.Reader
	delegation.Lister
	Revoke(ctx context.Context, r delegation.Revocation) (delegation.Ended, error)
}

// Authorizer says whether a verified caller may do something with records. An error means that nobody knows now.
type Authorizer interface {
	Allowed(ctx context.Context, who tokenreview.Verdict, verb Verb, name string) (bool, error)
}

// AdminOptions make an Admin. Everything but Audit, Revoked and Now is needed: Reviewer and Authorizer, or Local.
type AdminOptions struct {
	Reviewer   Reviewer
	Authorizer Authorizer
	// Local is whom every request comes from, for a Unix socket that admins alone reach. No token is looked at then, and nobody else
	// is asked.
	Local   *tokenreview.Verdict
	Records Records
	Metrics *Metrics
	Log     logr.Logger
	// Audit gets one line for each use, whatever else is logged; the zero value is Log.
	Audit logr.Logger
	// Revoked is called after each revocation and before it is acknowledged, so that a copy of the database that does not know of it can be
	// told from this one.
	Revoked func(ctx context.Context)
	Now     func() time.Time
}

// Admin answers platform admins: they inspect records and revoke them, and nothing else. It is an http.Handler for a listener of its own,
// which by default nobody reaches but by a port-forward.
type Admin struct {
	o     AdminOptions
	audit logr.Logger
}

// NewAdmin returns an Admin, or what is missing.
func NewAdmin(o AdminOptions) (*Admin, error) {
	identified := (o.Local != nil) != (o.Reviewer != nil && o.Authorizer != nil) // by one of the two, and not by both
	if !identified || o.Records == nil || o.Metrics == nil {
		return nil, errors.New("exchange: the admins' listener needs a reviewer and an authorizer, or else Local, and records and metrics")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Audit.GetSink() == nil {
		o.Audit = o.Log
	}
	if o.Revoked == nil {
		o.Revoked = func(context.Context) {}
	}
	return &Admin{o: o, audit: o.Audit.WithName("audit")}, nil
}

// admin is one request of an admin and what became of it.
type admin struct {
	who     tokenreview.Verdict
	verb    Verb
	kind    string
	name    string
	outcome adminOutcome
	ended   delegation.Ended
	patch   patch
}

// ServeHTTP answers one request; each is one audit line.
func (d *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if what := recover(); what != nil {
			d.o.Metrics.panics.Inc()
			d.o.Log.Error(nil, "an admin's request panicked")
			writeError(w, http.StatusInternalServerError, "internal", "the request failed")
		}
	}()
	a := admin{}
	a.verb, a.kind, a.name = asks(r)
	status, body := d.answer(r, &a)
	d.o.Metrics.admin.WithLabelValues(string(a.verb), string(a.outcome)).Inc()
	d.audit.Info("records", "verb", string(a.verb), "kind", a.kind, "name", a.name, keyOutcome, string(a.outcome), "caller", a.who.Username,
		"credentialID", a.who.CredentialID, keyFrom, address(r), "submissionsRevoked", a.ended.Submissions, "rowsRevoked", a.ended.Rows,
		"submitter", a.patch.submitter)
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="lanyard-admin"`)
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, status, body)
}

// asks reads what is asked of the method and the exact path: /admin/records/{kind}[/{name}].
func asks(r *http.Request) (verb Verb, kind, name string) {
	rest, found := strings.CutPrefix(r.URL.Path, wire.PathAdminRecords+"/")
	kind, name, named := strings.Cut(rest, "/")
	if !found || (kind != kindSubmission && kind != kindDelegation) || named && (name == "" || strings.Contains(name, "/")) {
		return verbNone, "", ""
	}
	switch {
	case r.Method == http.MethodPatch:
		return VerbPatch, kind, name
	case r.Method == http.MethodGet && named:
		return VerbGet, kind, name
	case r.Method == http.MethodGet:
		return VerbList, kind, ""
	default:
		return verbNone, kind, name
	}
}

// answer authenticates, authorizes and then does what is asked, in this order: a stranger learns nothing, not even what there is.
func (d *Admin) answer(r *http.Request, a *admin) (int, any) {
	if d.o.Local != nil {
		a.who = *d.o.Local
		if a.verb == verbNone {
			return a.fail(http.StatusNotFound, adminNotFound, "there is nothing at this path")
		}
		return d.serve(r, a)
	}
	token, ok := bearer(r.Header)
	if !ok {
		return a.fail(http.StatusUnauthorized, adminNoToken, "a bearer token of audience lanyard-admin is needed, in one Authorization header")
	}
	who, err := d.o.Reviewer.Review(r.Context(), token, nil)
	switch {
	case errors.Is(err, tokenreview.ErrInvalid):
		return a.fail(http.StatusUnauthorized, adminRefused, "the token was refused")
	case err != nil:
		d.o.Log.Error(err, "an admin's token cannot be reviewed")
		return a.fail(http.StatusServiceUnavailable, adminUnavailable, "try again later")
	}
	a.who = who
	if a.verb == verbNone {
		return a.fail(http.StatusNotFound, adminNotFound, "there is nothing at this path")
	}
	allowed, err := d.o.Authorizer.Allowed(r.Context(), who, a.verb, a.name)
	switch {
	case err != nil:
		d.o.Log.Error(err, "the API server was not asked whether an admin may")
		return a.fail(http.StatusServiceUnavailable, adminUnavailable, "try again later")
	case !allowed:
		return a.fail(http.StatusForbidden, adminForbidden, `the account needs "`+string(a.verb)+`" on "`+wire.ResourceRecords+`" in "`+wire.AdminGroup+`"`)
	}
	return d.serve(r, a)
}

func (a *admin) fail(status int, outcome adminOutcome, description string) (int, any) {
	a.outcome = outcome
	return status, failure{Error: string(outcome), Description: description}
}

// failed turns an error of the store into an answer.
func (d *Admin) failed(a *admin, err error) (int, any) {
	switch {
	case errors.Is(err, delegation.ErrNotFound):
		return a.fail(http.StatusNotFound, adminNotFound, "there is no such record")
	case errors.Is(err, delegation.ErrInvalid):
		return a.fail(http.StatusBadRequest, adminInvalid, "the question is not well formed")
	default:
		d.o.Log.Error(err, "the records cannot be reached")
		return a.fail(http.StatusServiceUnavailable, adminUnavailable, "try again later")
	}
}
