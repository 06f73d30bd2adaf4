package config

import (
	"errors"
	"io/fs"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/lanyard-k8s/lanyard/api/healthevent/weight"
	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/internal/config"
)

const (
	mebibyte = 1 << 20
	day      = 24 * 60 * 60
)

// ParseSettings reads the settings file for a role. The error is of type Faults of the room internal/config and holds all
// faults. A key of the other role is refused: it would do nothing, and its author thinks that it does.
func ParseSettings(raw []byte, role nodebinding.Role) (Settings, error) {
	root := config.Parse(raw)
	r := reader{root: root, deployment: role == nodebinding.Deployment}
	s := Settings{
		StrictLiveness:     root.Bool("strictLiveness", true),
		OverridesNeedToken: root.Bool("overridesNeedToken", false),
		Publishers:         r.accounts("publishers"),
		ReleaseAccounts:    r.accounts("releaseServiceAccounts"),
		Drain:              seconds(root, "drainSeconds", 20, 1, 600),
		Socket:             r.socket(root.Section("socket")),
		SelfTest:           r.selfTest(root.Section("selfTest")),
		Review:             r.review(root.Section("review")),
		Liveness:           r.liveness(root.Section("liveness")),
		Limits:             r.limits(root.Section("limits")),
		Sinks:              r.sinks(root.Section("sinks")),
		Spool:              r.spool(root.Section("spool")),
	}
	r.only("publishers", r.deployment, nodebinding.Deployment)
	r.only("socket", !r.deployment, nodebinding.Socket)
	r.only("spool", !r.deployment, nodebinding.Socket)
	checkTimes(root, s)
	if s.Spool.Enabled && s.Spool.Bytes < 4*s.Limits.MessageBytes {
		root.FaultAt("spool.maxBytes", "must be at least four times limits.maxMessageBytes: a call that can never be taken in would be repeated for ever")
	}
	if err := root.Err(); err != nil {
		return Settings{}, err
	}
	return s, nil
}

// checkTimes holds what a call waits for to less than the call may take.
func checkTimes(root *config.Section, s Settings) {
	if s.Review.Timeout >= s.Limits.Request {
		root.FaultAt("review.timeoutMilliseconds", "must be less than limits.requestMilliseconds, within which it happens")
	}
	if !s.Spool.Enabled && s.Sinks.Timeout >= s.Limits.Request {
		root.FaultAt("sinks.timeoutMilliseconds", "must be less than limits.requestMilliseconds, since without a spool the call waits for the sinks")
	}
}

// reader reads a settings file for one role.
type reader struct {
	root       *config.Section
	deployment bool
}

// byRole returns the default of the role.
func byRole[T any](r reader, socket, deployment T) T {
	if r.deployment {
		return deployment
	}
	return socket
}

func (r reader) only(key string, fits bool, role nodebinding.Role) {
	if !fits && r.root.Has(key) {
		r.root.Fault(key, "is a setting of --role %s; remove it", role)
	}
}

// accounts reads a list of "namespace/serviceAccount" as usernames; nil when it is absent.
func (r reader) accounts(key string) []string {
	list := r.root.Strings(key, nil, func(s string) error {
		_, err := wire.ParseAccount(s)
		return err
	})
	if list == nil {
		return nil
	}
	out := make([]string, 0, len(list))
	for _, s := range list {
		if a, err := wire.ParseAccount(s); err == nil && !slices.Contains(out, a.Username()) {
			out = append(out, a.Username())
		}
	}
	return out
}

var octalMode = regexp.MustCompile(`^0[0-7]{3}$`)

func (r reader) socket(sec *config.Section) Socket {
	s := Socket{
		RequireToken: sec.Bool("requireToken", false), Group: sec.Int("group", -1, 0, math.MaxInt32),
		ConnectionsPerUser: sec.Int("maxConnectionsPerUser", 64, 1, 1<<20),
	}
	text := sec.Text("mode", "0666")
	bits, err := strconv.ParseUint(text, 8, 32)
	if !octalMode.MatchString(text) || err != nil || bits&0o111 != 0 || bits&0o600 != 0o600 {
		sec.Fault("mode", `must be four octal digits in quotes that let the owner read and write and nobody execute, such as "0660"`)
		return s
	}
	s.Mode = fs.FileMode(bits)
	return s
}

func (r reader) selfTest(sec *config.Section) SelfTest {
	return SelfTest{TokenFile: file(sec, "tokenFile", ""), APITokenFile: file(sec, "apiTokenFile", "")}
}

func (r reader) review(sec *config.Section) Review {
	v := Review{
		Timeout:           milliseconds(sec, "timeoutMilliseconds", 2000, 100, 4000),
		Entries:           sec.Int("cacheEntries", byRole[int64](r, 4096, 131072), 16, 1<<22),
		EntriesPerPod:     sec.Int("cacheEntriesPerPod", 4, 1, 16),
		Refusals:          milliseconds(sec, "refusalsMilliseconds", 2000, 0, 2000),
		RefreshLeast:      seconds(sec, "refreshLeastSeconds", 300, 10, day),
		RefreshMost:       seconds(sec, "refreshMostSeconds", 600, 10, day),
		RefreshUnwatched:  seconds(sec, "refreshUnwatchedSeconds", 10, 1, 10),
		QPS:               sec.Int("qps", byRole[int64](r, 50, 1000), 1, 1<<16),
		Burst:             sec.Int("burst", byRole[int64](r, 100, 2000), 1, 1<<17),
		Concurrent:        sec.Int("concurrent", byRole[int64](r, 16, 128), 1, 4096),
		FailuresPerMinute: sec.Int("failuresPerMinute", 60, 1, 1<<20),
		FailuresBurst:     sec.Int("failuresBurst", 20, 1, 1<<20),
		SingleAudience:    sec.Bool("singleAudience", false),
	}
	if v.RefreshMost < v.RefreshLeast {
		sec.Fault("refreshMostSeconds", "must be at least refreshLeastSeconds (%d)", int64(v.RefreshLeast/time.Second))
	}
	return v
}

func (r reader) liveness(sec *config.Section) Liveness {
	v := Liveness{Silence: seconds(sec, "silenceSeconds", 10, 1, 60)}
	v.Namespaces = sec.Strings("namespaces", nil, func(s string) error {
		if !wire.DNSLabel(s) {
			return errors.New("must be a namespace's name: a DNS-1123 label (lower case letters, digits and '-', at most 63)")
		}
		return nil
	})
	if r.deployment && sec.Has("namespaces") {
		sec.Fault("namespaces", "is a setting of --role %s; remove it", nodebinding.Socket)
	}
	return v
}

func (r reader) limits(sec *config.Section) Limits {
	l := Limits{
		MessageBytes:  sec.Int("maxMessageBytes", 4*mebibyte, 64<<10, 64*mebibyte),
		HeaderBytes:   sec.Int("maxHeaderBytes", 16<<10, 12<<10, mebibyte),
		Events:        sec.Int("maxEvents", weight.DefaultEvents, 1, 1<<16),
		Parts:         sec.Int("maxParts", weight.DefaultParts, 1, 1<<20),
		Streams:       sec.Int("maxStreams", 128, 1, 1<<16),
		Connections:   sec.Int("maxConnections", byRole[int64](r, 256, 10_000), 1, 1<<20),
		ConnectionAge: seconds(sec, "maxConnectionAgeSeconds", byRole[int64](r, 0, 600), 0, day),
		Request:       milliseconds(sec, "requestMilliseconds", 4000, 500, 4500),
	}
	least := 4 * l.MessageBytes
	l.InFlight = sec.Int("maxInFlightBytes", max(least, byRole[int64](r, 64, 256)*mebibyte), 256<<10, 1<<40)
	if l.InFlight < least {
		sec.Fault("maxInFlightBytes", "must be at least four times maxMessageBytes (%d)", least)
	}
	return l
}

func (r reader) spool(sec *config.Section) Spool {
	return Spool{
		Enabled:   sec.Bool("enabled", true) && !r.deployment,
		Directory: file(sec, "directory", "/var/lib/lanyard/spool"),
		Bytes:     sec.Int("maxBytes", 256*mebibyte, mebibyte, 1<<40),
		Group:     milliseconds(sec, "groupMilliseconds", 2, 0, 100),
		RetryMost: seconds(sec, "retryMostSeconds", 30, 1, 600),

		GiveUpAttempts: sec.Int("giveUpAttempts", 10, 0, 1000),
		GiveUpAfter:    seconds(sec, "giveUpSeconds", 900, 10, day),
	}
}

func seconds(sec *config.Section, key string, absent, least, most int64) time.Duration {
	return time.Duration(sec.Int(key, absent, least, most)) * time.Second
}

func milliseconds(sec *config.Section, key string, absent, least, most int64) time.Duration {
	return time.Duration(sec.Int(key, absent, least, most)) * time.Millisecond
}

// file reads an absolute, clean path.
func file(sec *config.Section, key, absent string) string {
	p := sec.Text(key, absent)
	if sec.Has(key) && p != absent && cleanPath(p) != nil {
		sec.Fault(key, "%v", cleanPath(p))
	}
	return p
}

func cleanPath(p string) error {
	if !path.IsAbs(p) || path.Clean(p) != p || p == "/" {
		return errors.New(`must be an absolute path below "/" without "//", "." or ".." and without a slash at its end`)
	}
	return nil
}
