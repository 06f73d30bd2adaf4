package dockerjob

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/dockerjob/jobspec"
)

// Settings say what containers are given. BaseURL, CA, Audiences and Instance are needed, the rest has defaults.
type Settings struct {
	// Instance tells this backend's containers and volumes from those of others on the same Engine. It matches
	// `^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$` and must stay the same for the same database.
	Instance string
	// Cluster is what submissions have as their cluster: the machine's name, for people.
	Cluster string
	// BaseURL is where containers reach the exchange: https, and a host name or an address.
	BaseURL string
	// CA gives the PEM of the certificates that the exchange's is checked against; containers find it beside their proof. It is asked
	// once for each job, so that new jobs are given a new authority as soon as there is one. It may be called from several goroutines.
	CA func() []byte
	// Network is the network that containers are put on; "bridge".
	Network string
	// MountPath is the directory that holds the proof and the CA; wire.DefaultJobMountPath.
	MountPath string
	// Audiences and Scopes are all that the jobs' tokens may name.
	Audiences, Scopes []string
	// SystemSubjects are the submitters in front of which "system:" may stand, as the exchange has them.
	SystemSubjects []string
	// Limits are the defaults and maxima of processor and memory.
	Limits jobspec.Limits
	// Pids is how many processes a container may have; 1024.
	Pids int64
	// MaxJobs is how many jobs may run at once; 1024. MaxJobsEach is how many of one submitter; 256.
	MaxJobs, MaxJobsEach int
	// MaxAge is how long a row lasts that nobody renews; 24 h. Rows of running containers are renewed at half of it.
	MaxAge time.Duration
	// Linger is how long an ended container waits for somebody to read its output before it is removed; 10 s. Its row is
	// revoked at once.
	Linger time.Duration
	// Keep is how long an ended job is listed, with the end of its output; 1 h.
	Keep time.Duration
	// Retention is how long the submitter of an ended job stays on record; 30 days.
	Retention time.Duration
	// Resync is how often containers are compared with rows besides; 30 s.
	Resync time.Duration
	// Timeout is how long one call to the Engine may take; 1 min. Creating a container takes seconds on a busy machine.
	Timeout time.Duration
}

// ErrSettings is every fault of Settings.
var ErrSettings = errors.New("dockerjob: settings")

// filled returns the settings with their defaults, or all that is wrong with them.
func (s Settings) filled() (Settings, error) {
	fill(&s.Network, "bridge")
	fill(&s.MountPath, wire.DefaultJobMountPath)
	fill(&s.Pids, 1024)
	fill(&s.MaxJobs, 1024)
	fill(&s.MaxJobsEach, 256)
	fill(&s.MaxAge, 24*time.Hour)
	fill(&s.Linger, 10*time.Second)
	fill(&s.Keep, time.Hour)
	fill(&s.Retention, 30*24*time.Hour)
	fill(&s.Resync, 30*time.Second)
	fill(&s.Timeout, time.Minute)
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`).MatchString(s.Instance) {
		fault("Instance: must be 1 to 63 lower-case letters, digits and hyphens")
	}
	if u, err := url.Parse(s.BaseURL); err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		fault("BaseURL: must be https://HOST[:PORT]")
	}
	if s.CA == nil || !isCA(s.CA()) {
		fault("CA: must be certificates in PEM, at most %d bytes", maxCA)
	}
	if len(s.Audiences) == 0 {
		fault("Audiences: name at least one")
	}
	if !path.IsAbs(s.MountPath) || path.Clean(s.MountPath) != s.MountPath || s.MountPath == "/" || strings.Contains(s.MountPath, ":") {
		fault("MountPath: must be an absolute path without dots or colons")
	}
	if s.Network == "host" || s.Network == "none" || strings.HasPrefix(s.Network, "container:") {
		fault("Network: must be a bridge; %q is not one", s.Network)
	}
	for _, f := range []struct {
		name string
		ok   bool
		must string
	}{
		{"Pids", s.Pids > 0, "more than 0"}, {"MaxJobs", s.MaxJobs > 0, "more than 0"}, {"MaxJobsEach", s.MaxJobsEach > 0, "more than 0"},
		{"MaxAge", s.MaxAge >= time.Minute, "a minute or more"}, {"Linger", s.Linger >= 0, "0 or more"}, {"Keep", s.Keep >= 0, "0 or more"},
		{"Retention", s.Retention > 0, "more than 0"}, {"Resync", s.Resync > 0, "more than 0"}, {"Timeout", s.Timeout > 0, "more than 0"},
	} {
		if !f.ok {
			fault("%s: must be %s", f.name, f.must)
		}
	}
	if len(faults) > 0 {
		return s, fmt.Errorf("%w: %w", ErrSettings, errors.Join(faults...))
	}
	return s, nil
}

// maxCA bounds the CA that is copied into every job's volume.
const maxCA = 256 << 10

// isCA says whether something can be handed to jobs as a CA.
func isCA(pem []byte) bool {
	return strings.Contains(string(pem), "-----BEGIN CERTIFICATE-----") && len(pem) <= maxCA
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
