// Package settings reads the exchange's configuration: one strict YAML file, every fault of which is reported at once. Only the
// issuer, and where keys and records are kept, must be given; every other key has a default.
package settings

import (
	"time"

	"github.com/lanyard-k8s/lanyard/exchange/grant"
	"github.com/lanyard-k8s/lanyard/internal/mint"
	"github.com/lanyard-k8s/lanyard/policy"
)

// Settings are a configuration without faults.
type Settings struct {
	// Rules are what grants are decided by.
	Rules grant.Rules
	// BaseURL is where clients reach the exchange; without a slash at its end.
	BaseURL string
	// Login is the platform's own sign-in for people, for the discovery document.
	Login Login
	// Subjects are what is known of submitters, by their names.
	Subjects map[string]grant.Attributes
	Keys     Keys
	Store    Store
	Callout  Callout
	Admin    Admin
	Review   Review
	Limits   Limits
	// Reconcile is how pods are judged; its zero value means that somebody else writes the rows.
	Reconcile Reconcile
	// Docker is the backend for one machine; its zero value is Kubernetes.
	Docker Docker
	// Replicas is how many processes share the store and the keys.
	Replicas int64
	// Drain is how long requests may take to end once the process is told to stop.
	Drain time.Duration
}

// Login is where people sign in. Empty members are told as null, but for those that are the exchange's own by default.
type Login struct {
	Issuer                string
	AuthorizationEndpoint string
	TokenEndpoint         string
	DeviceEndpoint        string
	UserinfoEndpoint      string
	ClientID              string
	Audience              string
	DefaultScopes         string
}

// Keys say where the signing keys are and how they are rotated. Exactly one of Secret and Directory is set.
type Keys struct {
	// Namespace and Secret name the Secret.
	Namespace string
	Secret    string
	Directory string
	Alg       mint.Alg
	Timing    mint.Timing
}

// Driver is the kind of database.
type Driver string

// The drivers.
const (
	SQLite   Driver = "sqlite"
	Postgres Driver = "postgres"
)

// Store says where the records are.
type Store struct {
	Driver Driver
	// Directory is SQLite's.
	Directory string
	// ConnectionFile holds PostgreSQL's connection string, ListenFile that for LISTEN, if it is another.
	ConnectionFile string
	ListenFile     string
	Connections    int64
}

// Callout is how gateways are answered.
type Callout struct {
	// Audience is the one that tokens must be for.
	Audience string
	// CheckRow asks for each delegated token whether its row still stands.
	CheckRow bool
	// HeaderPrefix starts the trusted headers.
	HeaderPrefix string
}

// Admin is the listener for admins.
type Admin struct {
	Enabled  bool
	Audience string
}

// Review bounds what the API server is asked.
type Review struct {
	Timeout           time.Duration
	QPS               int64
	Burst             int64
	Concurrent        int64
	Entries           int64
	FailuresBurst     int64
	FailuresPerMinute int64
	// WatchPods keeps track of which pods live, so that a token dies with its pod even where nobody has judged yet.
	WatchPods bool
}

// Limits bound what clients may ask.
type Limits struct {
	// Requests is how many token requests with a good proof are under way at once; more are told to come again.
	Requests int64
	// Hold is how long a request waits for its pod to be judged, HeldPerRow and Held how many do.
	Hold       time.Duration
	HeldPerRow int64
	Held       int64
}

// Reconcile is how this process judges pods and writes their rows.
type Reconcile struct {
	// PoliciesFile holds, as JSON, what the installed policies are made of; Policies is its content. Empty turns reconciling off.
	PoliciesFile string
	Policies     policy.Settings
	// Cluster is stored with submissions, for people.
	Cluster string
	// MaxAge is how long a row lives without being renewed, HardCap ends it although its pod runs; zero is never.
	MaxAge  time.Duration
	HardCap time.Duration
	// Retention is how long a submitter's name is kept after the end.
	Retention time.Duration
	// LeaseNamespace and Lease name the lease that the leader among several replicas holds; empty is for one replica.
	LeaseNamespace string
	Lease          string
	// CAConfigMap is the ConfigMap that CAFile is kept in, in managed namespaces; empty leaves that to somebody else. CANamespaces
	// need it besides: pods of ours that call a server of ours over TLS.
	CAConfigMap  string
	CAFile       string
	CANamespaces []string
	// CAPublishers says that namespaces labelled for publishers need it too, as they do where a connector's Deployment is called.
	CAPublishers bool
}

// Enabled says whether this process judges pods.
func (r Reconcile) Enabled() bool { return r.PoliciesFile != "" }

// MarshalLog is what the log is told: everything but what is known of people.
func (s Settings) MarshalLog() any {
	type plain Settings // without this method
	people := len(s.Subjects) + len(s.Docker.Submitters)
	s.Subjects, s.Docker.Submitters = nil, nil
	return struct {
		plain
		People int
	}{plain(s), people}
}
