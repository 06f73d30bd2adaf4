package config

import (
	"io/fs"
	"time"
)

// Settings are what the settings file says. Every key may be absent; the comments name the keys and their defaults.
type Settings struct {
	// StrictLiveness (strictLiveness, true) refuses tokens of ended pods and re-created nodes beyond what a review sees.
	StrictLiveness bool
	// OverridesNeedToken (overridesNeedToken, false) drops quarantine and drain overrides from callers without a token.
	OverridesNeedToken bool
	// Publishers (publishers, absent) are the usernames that may call the deployment role; nil means that all may.
	Publishers []string
	// ReleaseAccounts (releaseServiceAccounts, []) are the usernames of Lanyard's own service accounts. They may not be on
	// the cross-node list.
	ReleaseAccounts []string
	// Drain (drainSeconds, 20) is how long a connector that is told to stop goes on with what it has begun.
	Drain time.Duration

	Socket   Socket
	SelfTest SelfTest
	Review   Review
	Liveness Liveness
	Limits   Limits
	Sinks    Sinks
	Spool    Spool
}

// Socket (socket) is the socket file and who may use it; socket role only.
type Socket struct {
	// RequireToken (requireToken, false) refuses callers without a token, whom the seed pins to the node.
	RequireToken bool
	// Mode (mode, "0666") is the socket file's mode, as four octal digits in quotes: publishers run under any user.
	Mode fs.FileMode
	// Group (group, absent) is the socket file's numeric group; -1 leaves it alone.
	Group int64
	// ConnectionsPerUser (maxConnectionsPerUser, 64) bounds the connections of one user, as the kernel names it.
	ConnectionsPerUser int64
}

// SelfTest (selfTest) names the tokens that are reviewed at start. An empty name skips that test, which is logged.
type SelfTest struct {
	// TokenFile (tokenFile, "") holds a token of our own made for our audience. It must be accepted.
	TokenFile string
	// APITokenFile (apiTokenFile, "") holds our own token for the API server. It must be refused.
	APITokenFile string
}

// Review (review) is how tokens are reviewed and verdicts kept.
type Review struct {
	// Timeout (timeoutMilliseconds, 2000) bounds one review; a publisher gives up on its call after 5 s.
	Timeout time.Duration
	// Entries (cacheEntries, 4096; 131072 for a deployment) and EntriesPerPod (cacheEntriesPerPod, 4) bound the cache.
	Entries       int64
	EntriesPerPod int64
	// Refusals (refusalsMilliseconds, 2000) is how long a refusal is remembered; 0 for not at all.
	Refusals time.Duration
	// RefreshLeast and RefreshMost (refreshLeastSeconds, 300; refreshMostSeconds, 600): an accepted token is reviewed again
	// after a random time between them.
	RefreshLeast time.Duration
	RefreshMost  time.Duration
	// RefreshUnwatched (refreshUnwatchedSeconds, 10) is the same for a token whose pod no watch sees.
	RefreshUnwatched time.Duration
	// QPS and Burst (qps, 50 and burst, 100; 1000 and 2000 for a deployment) bound the reviews sent.
	QPS   int64
	Burst int64
	// Concurrent (concurrent, 16; 128 for a deployment) bounds the reviews under way.
	Concurrent int64
	// FailuresPerMinute and FailuresBurst (failuresPerMinute, 60; failuresBurst, 20) bound the failed tokens of one connection.
	FailuresPerMinute int64
	FailuresBurst     int64
	// SingleAudience (singleAudience, false) refuses tokens that are made for another audience besides ours.
	SingleAudience bool
}

// Liveness (liveness) is the watch of pods and nodes.
type Liveness struct {
	// Silence (silenceSeconds, 10) is how long a watch may say nothing past its bookmark before it is no longer relied on.
	Silence time.Duration
	// Namespaces (namespaces, absent; socket role only) are those whose pods are watched, where the account may not watch
	// all. Nil is all namespaces in one watch; an empty list is none. A token from elsewhere is reviewed again after
	// review.refreshUnwatchedSeconds.
	Namespaces []string
}

// Limits (limits) bound what one caller can ask of the server.
type Limits struct {
	// MessageBytes (maxMessageBytes, 4 MiB) and HeaderBytes (maxHeaderBytes, 16 KiB) bound a call.
	MessageBytes int64
	HeaderBytes  int64
	// Streams (maxStreams, 128) bounds the calls under way on one connection.
	Streams int64
	// Connections (maxConnections, 256; 10000 for a deployment) bounds the connections, of which one address may have a quarter.
	Connections int64
	// Events (maxEvents, 2048) and Parts (maxParts, 16384) bound what a call may hold: its events, and the error codes, entities and
	// members of metadata of all of them. Bytes alone are no bound of memory: an empty event is two bytes on the wire and hundreds in
	// a process.
	Events int64
	Parts  int64
	// InFlight (maxInFlightBytes, 64 MiB; 256 MiB for a deployment) bounds what messages take of the memory: as much as the
	// largest while they arrive, and until the call's end what they have turned out to be, decoded and with two copies of their bytes;
	// four of the largest at least.
	InFlight int64
	// ConnectionAge (maxConnectionAgeSeconds, 0; 600 for a deployment) ends a connection kindly after this time; 0 for never.
	ConnectionAge time.Duration
	// Request (requestMilliseconds, 4000) bounds one call. Publishers give up after 5 s.
	Request time.Duration
}

// Spool (spool) is the durable queue; socket role only.
type Spool struct {
	// Enabled (enabled, true); without it a batch is acknowledged after it was delivered.
	Enabled bool
	// Directory (directory, /var/lib/lanyard/spool) belongs to the connector alone.
	Directory string
	// Bytes (maxBytes, 256 MiB) bounds the queue; the last quarter takes verified callers only. It is at least four times
	// limits.maxMessageBytes: a call that can never be taken in would be repeated for ever.
	Bytes int64
	// Group (groupMilliseconds, 2) is how long a batch waits for others to be made durable with.
	Group time.Duration
	// RetryMost (retryMostSeconds, 30) bounds the pause between two attempts to deliver.
	RetryMost time.Duration
	// GiveUpAttempts (giveUpAttempts, 10; 0 is never) and GiveUpAfter (giveUpSeconds, 900) are how often and how long a batch
	// is offered to a sink that fails on it before it is put aside for that sink.
	GiveUpAttempts int64
	GiveUpAfter    time.Duration
}

// Sinks (sinks) are where accepted events go. At least one must be enabled.
type Sinks struct {
	// Timeout (timeoutMilliseconds, 3000) bounds one delivery to one sink.
	Timeout    time.Duration
	Log        LogSink
	Kubernetes KubernetesSink
	Store      StoreSink
	Forward    ForwardSink
}

// LogSink (sinks.log) writes one JSON line an event.
type LogSink struct {
	// Enabled (enabled, true; false for a deployment).
	Enabled bool
}

// KubernetesSink (sinks.kubernetes) writes node conditions and Events.
type KubernetesSink struct {
	// Enabled (enabled, true).
	Enabled bool
	// ForeignConditions (foreignConditions, []) are condition types that belong to somebody else, besides the kubelet's.
	ForeignConditions []string
	// Conditions (maxConditions, 64), Writes (writesPerMinute, 32) and Events (eventsPerMinute, 16) bound what is written
	// to one node.
	Conditions int64
	Writes     int64
	Events     int64
}

// The drivers of the store.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
)

// StoreSink (sinks.store) keeps every event in a table.
type StoreSink struct {
	// Enabled (enabled, false; true for a deployment).
	Enabled bool
	// Driver (driver, sqlite) is sqlite or, for a deployment, postgres.
	Driver string
	// Path (path, /var/lib/lanyard/store/events.db) is SQLite's file.
	Path string
	// DSNFile (dsnFile, required for postgres) holds PostgreSQL's data source name, which is a secret.
	DSNFile string
	// Retention (retentionDays, 30) is how long an event is kept; 0 for ever. A batch is stored once as long as its rows are
	// there.
	Retention time.Duration
}

// ForwardSink (sinks.forward) hands events to another connector, over its socket or over TLS.
type ForwardSink struct {
	// Enabled (enabled, false).
	Enabled bool
	// Socket (socket) is the other connector's socket; Address (address) its host:port. One of them is required.
	Socket  string
	Address string
	// CAFile (caFile, required with address) holds the certificates that the other side's is checked against, and
	// ServerName (serverName, the address's host) the name that it must bear.
	CAFile     string
	ServerName string
	// TokenFile (tokenFile, required with address) holds the token to present; it is read again for each call.
	TokenFile string
}
