// Package settings reads the webhook's configuration file: the rules that the pure rooms decide by, the table of job kinds
// and the server's limits. The chart renders the file; `webhook check-config` and `lanyard preview` read the same one.
package settings

import (
	"fmt"
	"os"

	"github.com/lanyard-k8s/lanyard/internal/config"
	"github.com/lanyard-k8s/lanyard/mutate"
)

// Settings are the effective configuration. They hold no secret, so that they can be logged as they are.
type Settings struct {
	Rules       mutate.Rules
	JobKinds    []JobKind
	Delegating  []Delegate
	Limits      Limits
	Publishing  bool // publisher.enabled
	ManagedJobs bool // job.enabled
}

// JobKind is one row of the table of kinds whose pods act for their submitters. PodCreators are the usernames that may
// create such pods; AdoptionLabels the labels by which the kind's controller would adopt a foreign pod.
type JobKind struct {
	Group          string
	Kind           string
	Resource       string
	PodCreators    []string
	AdoptionLabels []string
}

// Delegate is a controller that creates job kinds on behalf of whoever created the parent, such as the CronJob controller.
type Delegate struct {
	Identity string
	Parents  []mutate.GroupKind
}

// Limits bound what the server takes in at a time.
type Limits struct {
	MaxBodyBytes     int64
	MaxInFlight      int64
	MaxInFlightBytes int64
}

// Defaults of the keys that may be absent and that no seed names.
const (
	DefaultDocsURL          = "https://github.com/lanyard-k8s/lanyard/blob/main/docs/admission.md"
	DefaultMaxBodyBytes     = 7 << 20
	DefaultMaxInFlight      = 256
	DefaultMaxInFlightBytes = 32 << 20
	defaultPublisherMax     = 86400
	defaultJobMax           = 3600
)

// PerByte is how many times its length a review has of memory in use at most, its body among it. What it has dropped is collected before
// the limit is reached.
const PerByte = 4

// Memory is what the program has in use at most for what its limits let in, in bytes: what it takes when it is idle, the bodies that are
// arriving and their copies while they grow, and those that are worked on. A busy collector is late by some tens of megabytes.
func (l Limits) Memory() int64 { return 64<<20 + PerByte*l.MaxInFlightBytes }

// Load reads and checks a file. An error that is a config.Faults lists everything that is wrong with it.
func Load(path string) (Settings, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return Settings{}, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(raw)
}

// Parse reads and checks a file's content. Settings are returned only when there is no fault.
func Parse(raw []byte) (Settings, error) {
	root := config.Parse(raw)
	var s Settings
	readAdmission(root, &s)
	readPublisher(root.Section("publisher"), &s)
	readJob(root.Section("job"), &s)
	readDelegates(root, &s)
	readLimits(root.Section("limits"), &s)
	s.switchOff()
	// What the rules themselves demand is said by the room that applies them; its faults carry this file's key paths.
	for _, e := range s.Rules.Validate() {
		root.FaultAt(e.Field, e.ErrorBody())
	}
	if err := root.Err(); err != nil {
		return Settings{}, err
	}
	return s, nil
}

// switchOff drops the rules of a role that is off. They were read all the same, so that switching it on holds no surprise.
func (s *Settings) switchOff() {
	if !s.Publishing {
		s.Rules.Publisher = nil
	}
	if !s.ManagedJobs {
		s.Rules.Job = nil
	}
}

// Stamped lists the kinds other than pods that carry the creator stamp: the job kinds and every parent that a delegating
// controller makes them from.
func (s *Settings) Stamped() []mutate.GroupKind {
	seen := map[mutate.GroupKind]bool{}
	var out []mutate.GroupKind
	add := func(gk mutate.GroupKind) {
		if !seen[gk] {
			seen[gk] = true
			out = append(out, gk)
		}
	}
	for _, k := range s.JobKinds {
		add(mutate.GroupKind{Group: k.Group, Kind: k.Kind})
	}
	for _, d := range s.Delegating {
		for _, p := range d.Parents {
			add(p)
		}
	}
	return out
}
