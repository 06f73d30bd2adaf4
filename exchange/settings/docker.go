package settings

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lanyard-k8s/lanyard/api/jobs"
	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/dockerjob/jobspec"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
	"github.com/lanyard-k8s/lanyard/internal/config"
)

// BridgeHost stands in Docker.Listen for the address of the bridge's gateway, which the Docker Engine is asked for.
const BridgeHost = "bridge"

// nobody is the user that stands for everybody whom a user namespace does not map.
const nobody = 65534

// Docker is how the backend for one machine is run.
type Docker struct {
	// Enabled says that the file has the section; nothing of the rest is set otherwise.
	Enabled bool
	// Instance tells this exchange's containers from those of another on the same Engine.
	Instance string
	// StateDirectory holds the certificates, and by default the keys and the records.
	StateDirectory string
	// Engine is where the Docker Engine listens, "unix:///..." .
	Engine string
	// Socket is where users submit, Group whose members may reach it: a name or a number.
	Socket string
	Group  string
	// Submitters are subjects by users' numbers; UserPrefix comes before the names of all other users. Empty: they submit nothing.
	Submitters map[uint32]string
	UserPrefix string
	// Listen are the addresses of the token endpoint, "host:port"; BridgeHost among the hosts.
	Listen []string
	// BaseURL is the configured one; empty: each listener tells of its own address.
	BaseURL string
	// MountPath is where a job's container finds its proof.
	MountPath string
	Limits    DockerLimits
}

// DockerLimits bound what users may ask for.
type DockerLimits struct {
	// Jobs is how many jobs of one user are there at once, AllJobs how many of all.
	Jobs    int64
	AllJobs int64
	// Connections is how many connections of one user are open at once, AllConnections how many of all.
	Connections    int64
	AllConnections int64
	// DefaultCPU and DefaultMemory are what a job gets that asks for nothing, MaxCPU and MaxMemory the most that one may ask for. Zero: no bound.
	DefaultCPU    resource.Quantity
	MaxCPU        resource.Quantity
	DefaultMemory resource.Quantity
	MaxMemory     resource.Quantity
	// PIDs is how many processes a job may have.
	PIDs int64
	// Kept is how long an ended job can be looked at.
	Kept time.Duration
}

// docker reads the section; root is the file's own, for what the section forbids in the rest of it.
func docker(root *config.Section, r grant.Rules) Docker {
	if !root.Has("docker") {
		return Docker{}
	}
	sec := root.Section("docker")
	d := Docker{
		Enabled:        true,
		Instance:       sec.Text("instance", "lanyard"),
		StateDirectory: directory(sec, "stateDirectory"),
		Engine:         sec.Text("engine", "unix:///var/run/docker.sock"),
		Socket:         directory(sec, "socket"),
		Group:          sec.Text("group", "lanyard"),
		MountPath:      directory(sec, "mountPath"),
		BaseURL:        strings.TrimSuffix(root.String("baseURL", ""), "/"),
		Listen:         sec.Strings("listen", []string{"127.0.0.1:8443", BridgeHost + ":8443"}, address),
		UserPrefix:     sec.Text("userPrefix", ""),
		Limits:         dockerLimits(sec.Section("limits")),
	}
	for given, absent := range map[*string]string{
		&d.StateDirectory: "/var/lib/lanyard", &d.Socket: jobs.DefaultSocket, &d.MountPath: wire.DefaultJobMountPath,
	} {
		if *given == "" {
			*given = absent
		}
	}
	if err := engine(d.Engine); err != nil {
		sec.Fault("engine", "%v", err)
	}
	if !wire.DNSLabel(d.Instance) {
		sec.Fault("instance", "must be 1 to 63 lower-case letters, digits and inner hyphens")
	}
	if d.UserPrefix != "" && !userPrefix.MatchString(d.UserPrefix) {
		sec.Fault("userPrefix", `must be "unix:", this machine's name and a colon, such as "unix:build-1:"`)
	}
	d.Submitters = submitters(sec, r)
	if len(d.Submitters) == 0 && d.UserPrefix == "" {
		sec.Fault("submitters", `must list somebody, {1000: alice}, unless userPrefix lets every member of the group submit, "unix:build-1:"`)
	}
	if d.BaseURL == "" && !reachable(d.Listen) {
		sec.Fault("listen", "must hold %s:8443 or another address that containers reach, or baseURL must be given", BridgeHost)
	}
	dockerAlone(root)
	return d
}

// userPrefix cannot be taken for one of the platform's own subjects.
var userPrefix = regexp.MustCompile(`^unix:[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?:$`)

// dockerAlone refuses what belongs to Kubernetes: there is none in this mode, and a key that does nothing would mislead.
func dockerAlone(root *config.Section) {
	for _, key := range []string{"reconcile", "replicas", "allowedSubmitterServiceAccounts", "admin"} {
		if root.Has(key) {
			root.FaultAt(key, "belongs to Kubernetes and means nothing beside docker; remove it")
		}
	}
}

func submitters(sec *config.Section, r grant.Rules) map[uint32]string {
	listed := sec.Texts("submitters", func(uid, subject string) error {
		n, err := strconv.ParseUint(uid, 10, 32)
		switch {
		case err != nil || strconv.FormatUint(n, 10) != uid || n == 1<<32-1:
			return errors.New("must be a user's number, such as 1000: alice")
		case n == nobody:
			return errors.New("is nobody's own, and never submits: whoever comes with this number may be anyone")
		case visible(subject) != nil:
			return fmt.Errorf("the subject %w", visible(subject))
		case r.Reserved(subject):
			return errors.New(`the subject must not begin with "system:" or "service:", which are the platform's own`)
		}
		return nil
	})
	out := make(map[uint32]string, len(listed))
	for uid, subject := range listed {
		n, _ := strconv.ParseUint(uid, 10, 32) // checked above
		out[uint32(n)] = subject
	}
	return out
}

func engine(host string) error {
	path, unix := strings.CutPrefix(host, "unix://")
	if !unix || !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "\x00?#") {
		return errors.New("must be unix:///path/to/docker.sock: whoever reaches an Engine over the network is root there")
	}
	return nil
}

// address checks "host:port".
func address(s string) error {
	host, port, err := net.SplitHostPort(s)
	n, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || n == 0 {
		return errors.New(`must be "address:port", such as 127.0.0.1:8443`)
	}
	if host == BridgeHost {
		return nil
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Unmap().IsUnspecified() || ip.Zone() != "" { // the kernel takes ::ffff:0.0.0.0 for 0.0.0.0
		return fmt.Errorf("must name one address of this machine, or %q, before the port", BridgeHost)
	}
	return nil
}

// reachable says whether a container could reach one of the addresses.
func reachable(listen []string) bool {
	for _, s := range listen {
		host, _, _ := net.SplitHostPort(s)
		if ip, err := netip.ParseAddr(host); host == BridgeHost || (err == nil && !ip.IsLoopback()) {
			return true
		}
	}
	return false
}

func dockerLimits(sec *config.Section) DockerLimits {
	l := DockerLimits{
		Jobs:           sec.Int("jobs", 256, 1, 1<<16),
		AllJobs:        sec.Int("allJobs", 1024, 1, 1<<16),
		Connections:    sec.Int("connections", 512, 4, 1<<16),
		AllConnections: sec.Int("allConnections", 2048, 8, 1<<16),
		DefaultCPU:     quantity(sec, "defaultCPU", "10m"),
		MaxCPU:         quantity(sec, "maxCPU", "10m"),
		DefaultMemory:  quantity(sec, "defaultMemory", "6Mi"),
		MaxMemory:      quantity(sec, "maxMemory", "6Mi"),
		PIDs:           sec.Int("pids", 1024, 16, 1<<20),
		Kept:           seconds(sec, "keptSeconds", 3600, 1, 30*day),
	}
	for key, pair := range map[string][2]resource.Quantity{"defaultCPU": {l.DefaultCPU, l.MaxCPU}, "defaultMemory": {l.DefaultMemory, l.MaxMemory}} {
		if !pair[1].IsZero() && (pair[0].IsZero() || pair[0].Cmp(pair[1]) > 0) {
			sec.Fault(key, "must be given beside the maximum, and be at most that: a job that asks for nothing would get more")
		}
	}
	return l
}

// quantity reads an amount as Kubernetes writes it; absent is zero. least is the smallest that Docker takes.
func quantity(sec *config.Section, key, least string) resource.Quantity {
	text := sec.Text(key, "")
	if text == "" {
		return resource.Quantity{}
	}
	q, err := jobspec.ParseAmount(text)
	if err != nil || q.Cmp(resource.MustParse(least)) < 0 {
		sec.Fault(key, `must be an amount of at least %s, such as "500m", "2" or "512Mi", in quotes`, least)
		return resource.Quantity{}
	}
	return q
}
