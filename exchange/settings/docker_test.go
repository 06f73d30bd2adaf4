package settings_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/exchange/settings"
	"github.com/lanyard-k8s/lanyard/internal/config"
)

func TestDockerDefaults(t *testing.T) {
	t.Parallel()
	got, err := settings.Parse([]byte("issuer: https://build-1.example\ndocker: {userPrefix: 'unix:build-1:'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := settings.Docker{
		Enabled: true, Instance: "lanyard", StateDirectory: "/var/lib/lanyard", Engine: "unix:///var/run/docker.sock", Socket: "/run/lanyard/submit.sock", Group: "lanyard",
		Submitters: map[uint32]string{}, UserPrefix: "unix:build-1:", Listen: []string{"127.0.0.1:8443", "bridge:8443"},
		MountPath: "/var/run/secrets/nemo-platform/workload",
		Limits: settings.DockerLimits{
			Jobs: 256, AllJobs: 1024, Connections: 512, AllConnections: 2048, PIDs: 1024, Kept: time.Hour,
		},
	}
	if diff := cmp.Diff(want, got.Docker); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Keys.Directory != "/var/lib/lanyard/keys" || got.Store.Directory != "/var/lib/lanyard/store" || got.Store.Driver != settings.SQLite {
		t.Errorf("keys %q, records %q", got.Keys.Directory, got.Store.Directory)
	}
	none, err := settings.Parse([]byte(least))
	if err != nil || none.Docker.Enabled {
		t.Errorf("docker is on without its section: %v", err)
	}
}

func TestDockerValues(t *testing.T) {
	t.Parallel()
	got, err := settings.Parse([]byte(`issuer: https://build-1.example
baseURL: https://build-1.example:9443/
keys: {directory: /k}
store: {directory: /s}
docker:
  stateDirectory: /state
  submitters: {0: root@build-1, 1000: alice@example.com, 4294967294: far}
  listen: ["127.0.0.1:9443"]
  limits: {defaultCPU: "500m", maxCPU: "2", defaultMemory: 512Mi, maxMemory: 4Gi}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[uint32]string{0: "root@build-1", 1000: "alice@example.com", 4294967294: "far"}
	if diff := cmp.Diff(want, got.Docker.Submitters); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Docker.BaseURL != "https://build-1.example:9443" || got.BaseURL != got.Docker.BaseURL || got.Keys.Directory != "/k" || got.Store.Directory != "/s" {
		t.Errorf("got %+v", got)
	}
	l := got.Docker.Limits
	if l.DefaultCPU.MilliValue() != 500 || l.MaxCPU.MilliValue() != 2000 || l.DefaultMemory.Value() != 512<<20 || l.MaxMemory.Value() != 4<<30 {
		t.Errorf("limits %+v", l)
	}
	text, err := json.Marshal(got.MarshalLog())
	if err != nil || strings.Contains(string(text), "alice") || !strings.Contains(string(text), `"People":3`) {
		t.Errorf("the log is told of people: %v %s", err, text)
	}
}

// TestTheExampleIsTaken: what the documents tell people to begin with.
func TestTheExampleIsTaken(t *testing.T) {
	t.Parallel()
	s, err := settings.Load("../../docs/examples/docker/exchange.yaml")
	if err != nil || !s.Docker.Enabled || s.Docker.Submitters[1000] == "" || s.Docker.UserPrefix == "" {
		t.Errorf("got %+v, %v", s.Docker, err)
	}
}

func TestDockerFaults(t *testing.T) {
	t.Parallel()
	const user = "submitters: {1000: alice}"
	tests := map[string]struct {
		section, more string
		want          []string
	}{
		"nobody may submit":                      {"group: x", "", []string{"docker.submitters"}},
		"an empty list of submitters":            {"submitters: {}", "", []string{"docker.submitters"}},
		"a user by name":                         {"submitters: {alice: alice, 1000: bob}", "", []string{"docker.submitters.alice"}},
		"a number written twice over":            {"submitters: {'01000': alice, 1000: bob}", "", []string{"docker.submitters.01000"}},
		"the number that is no user":             {"submitters: {4294967295: alice, 1000: bob}", "", []string{"docker.submitters.4294967295"}},
		"nobody as a submitter":                  {"submitters: {65534: alice, 1000: bob}", "", []string{"docker.submitters.65534"}},
		"a subject of the platform's":            {"submitters: {1000: 'System:admin', 1: 'service:x', 2: ok}", "", []string{"docker.submitters.1", "docker.submitters.1000"}},
		"a subject with a space":                 {"submitters: {1000: 'a b', 1: ok}", "", []string{"docker.submitters.1000"}},
		"a prefix that is no user's":             {"userPrefix: 'build-1:'", "", []string{"docker.userPrefix"}},
		"a prefix without a host":                {"userPrefix: 'unix::'", "", []string{"docker.userPrefix"}},
		"an Engine on the network":               {user + ", engine: 'tcp://127.0.0.1:2375'", "", []string{"docker.engine"}},
		"an Engine's socket without a place":     {user + ", engine: 'unix://docker.sock'", "", []string{"docker.engine"}},
		"a socket with a relative path":          {user + ", socket: submit.sock", "", []string{"docker.socket"}},
		"all addresses at once":                  {user + ", listen: ['0.0.0.0:8443']", "", []string{"docker.listen", "docker.listen[0]"}},
		"all of them, mapped":                    {user + ", listen: ['[::ffff:0.0.0.0]:8443']", "", []string{"docker.listen", "docker.listen[0]"}},
		"an address by name":                     {user + ", listen: ['localhost:8443', 'bridge:8443']", "", []string{"docker.listen[0]"}},
		"a port that a client could not be told": {user + ", listen: ['bridge:0']", "", []string{"docker.listen", "docker.listen[0]"}},
		"no address that containers reach":       {user + ", listen: ['127.0.0.1:8443']", "", []string{"docker.listen"}},
		"an amount that takes for ever to read":  {user + ", limits: {maxCPU: '1e2147483647', defaultCPU: '1'}", "", []string{"docker.limits.maxCPU"}},
		"a bound of nothing":                     {user + ", limits: {jobs: 0, pids: 1, keptSeconds: 0}", "", []string{"docker.limits.jobs", "docker.limits.keptSeconds", "docker.limits.pids"}},
		"an amount that is none":                 {user + ", limits: {defaultCPU: much, maxMemory: '-1'}", "", []string{"docker.limits.defaultCPU", "docker.limits.maxMemory"}},
		"less than Docker takes":                 {user + ", limits: {defaultCPU: 1m, defaultMemory: 1Mi}", "", []string{"docker.limits.defaultCPU", "docker.limits.defaultMemory"}},
		"a maximum that a job without a wish would pass": {user + ", limits: {maxCPU: '1', defaultMemory: 2Gi, maxMemory: 1Gi}", "",
			[]string{"docker.limits.defaultCPU", "docker.limits.defaultMemory"}},
		"an instance that is no label":   {user + ", instance: My_Machine", "", []string{"docker.instance"}},
		"a key that is not there":        {user + ", sockets: /x", "", []string{"docker.sockets"}},
		"reconciling":                    {user, "reconcile: {}", []string{"reconcile"}},
		"replicas":                       {user, "replicas: 1", []string{"replicas"}},
		"service accounts as submitters": {user, "allowedSubmitterServiceAccounts: []", []string{"allowedSubmitterServiceAccounts"}},
		"the admins' listener":           {user, "admin: {enabled: true}", []string{"admin"}},
		"keys in a Secret":               {user, "keys: {secret: a/b}", []string{"keys.secret"}},
		"records in PostgreSQL":          {user, "store: {driver: postgres, connectionFile: /x}", []string{"store.driver"}},
		"all at once": {"engine: x, listen: [], userPrefix: x", "replicas: 2",
			[]string{"docker.engine", "docker.listen", "docker.userPrefix", "replicas"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := settings.Parse([]byte("issuer: https://x.example\ndocker: {" + tc.section + "}\n" + tc.more))
			var fs config.Faults
			if !errors.As(err, &fs) {
				t.Fatalf("got %v", err)
			}
			var got []string
			for _, f := range fs {
				got = append(got, f.Path)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, slices.Compact(got)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}
