package reconcile

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/provenance"
	"github.com/lanyard-k8s/lanyard/policy"
)

// Waker is told which rows were judged; the token endpoint holds requests for them.
type Waker interface {
	Judged(row string)
}

// Lease says which lease the leader among several replicas holds.
type Lease struct {
	Namespace string
	Name      string
	// Identity is this replica's, its pod's name.
	Identity string
}

// CA says which certificate is kept in which ConfigMap of every managed and every publisher-enabled namespace.
type CA struct {
	ConfigMap string
	// Namespaces need it without a label, and although nothing in them is managed: those of the accounts that are on the list of
	// publishers, and our own where a connector calls the other.
	Namespaces []string
	// Publishers says that namespaces labelled for publishers need it too: their pods call a connector over TLS.
	Publishers bool
	// Read gives the certificate in PEM; it is asked before every round.
	Read func() ([]byte, error)
}

// Options are what a Reconciler needs. Config, Store, Settings, IssuedAudience and Audiences must be given.
type Options struct {
	Config *rest.Config
	Store  delegation.Store
	// Settings are what the policies are made of; kinds, controllers, submitters and the subject audience come from them too, so
	// that the guards and the judge cannot disagree.
	Settings policy.Settings
	// IssuedAudience is part of a row's name; Audiences and Scopes are what a submission's tokens may name.
	IssuedAudience string
	Audiences      []string
	Scopes         []string
	// Cluster is stored with submissions, for people.
	Cluster string
	// MaxAge is how long a row lives without being renewed, 24 h if zero. HardCap ends it although its pod runs; zero is never.
	MaxAge  time.Duration
	HardCap time.Duration
	// Tombstones is how long a revoked row is kept, 25 h if zero: longer than any subject token lives. Retention is how long a
	// submitter's name is kept after the end, 30 days if zero.
	Tombstones time.Duration
	Retention  time.Duration
	// Every is how often everything is gone through, a minute if zero.
	Every time.Duration
	// EpochMargin is how much later than the API server's time the guard epoch is put, 11 s if zero: every API server must have learned
	// of the policies by then. Only a test with one API server may say less.
	EpochMargin time.Duration
	// KindGone is for how long a kind must have been undefined, or on no list, before the submissions of its objects end, an hour if zero.
	KindGone time.Duration
	// Workers judge at once, 64 if zero: they mostly wait, and share their looks at the policies.
	Workers int
	// Waker may be nil; so may Lease, for a store that only one process can open, and CA, for those who bring their own.
	Waker Waker
	Lease *Lease
	CA    *CA
	// Metrics may be nil, Log silent, and Now the clock.
	Metrics *Metrics
	Log     logr.Logger
	Now     func() time.Time
}

// filled returns the options with their defaults.
func (o Options) filled() (Options, error) {
	switch {
	case o.Config == nil || o.Store == nil:
		return o, errors.New("reconcile: a cluster and a store are needed")
	case !o.Settings.Jobs || len(o.Settings.Kinds) == 0 || o.Settings.JobAudience == "":
		return o, errors.New("reconcile: the settings must turn jobs on, with kinds and a subject audience")
	case o.IssuedAudience == "" || len(o.Audiences) == 0:
		return o, errors.New("reconcile: the audiences must be given")
	case o.MaxAge < 0 || o.HardCap < 0 || o.Tombstones < 0 || o.Retention < 0 || o.Every < 0 || o.EpochMargin < 0 || o.KindGone < 0 || o.Workers < 0:
		return o, errors.New("reconcile: durations and counts must not be negative")
	case o.CA != nil && (o.CA.ConfigMap == "" || o.CA.Read == nil):
		return o, errors.New("reconcile: the certificate needs a ConfigMap's name and a source")
	case o.Lease != nil && (o.Lease.Namespace == "" || o.Lease.Name == "" || o.Lease.Identity == ""):
		return o, errors.New("reconcile: the lease needs a namespace, a name and an identity")
	}
	o.MaxAge = orElse(o.MaxAge, 24*time.Hour)
	o.Tombstones = orElse(o.Tombstones, 25*time.Hour)
	o.Retention = orElse(o.Retention, 30*24*time.Hour)
	o.Every = orElse(o.Every, time.Minute)
	o.EpochMargin = orElse(o.EpochMargin, epochMargin)
	o.KindGone = orElse(o.KindGone, time.Hour)
	o.Workers = orElse(o.Workers, 64)
	if o.Log.GetSink() == nil {
		o.Log = logr.Discard()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Metrics == nil {
		o.Metrics = newSeries()
	}
	return o, nil
}

func orElse[T comparable](given, otherwise T) T {
	var zero T
	if given == zero {
		return otherwise
	}
	return given
}

// rulesOf reads the judge's rules from the policies' settings.
func rulesOf(s policy.Settings) provenance.Rules {
	r := provenance.Rules{Submitters: slices.Clone(s.Submitters), Audience: s.JobAudience}
	for _, k := range s.Kinds {
		r.Kinds = append(r.Kinds, provenance.Kind{GroupKind: provenance.GroupKind{Group: k.Group, Kind: k.Kind}, PodCreators: k.PodCreators})
	}
	for _, d := range s.Delegating {
		row := provenance.Delegate{Identity: d.Identity}
		for _, p := range d.Parents {
			group, kind, _ := strings.Cut(p, "/")
			row.Parents = append(row.Parents, provenance.GroupKind{Group: group, Kind: kind})
		}
		r.Delegating = append(r.Delegating, row)
	}
	return r
}
