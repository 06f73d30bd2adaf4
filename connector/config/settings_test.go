package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/connector/config"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

// defaults writes down every default of the socket role once more.
func defaults() config.Settings {
	return config.Settings{
		StrictLiveness: true, Drain: 20 * time.Second, Socket: config.Socket{Mode: 0o666, Group: -1, ConnectionsPerUser: 64},
		Review: config.Review{
			Timeout: 2 * time.Second, Entries: 4096, EntriesPerPod: 4, Refusals: 2 * time.Second, RefreshLeast: 5 * time.Minute,
			RefreshMost: 10 * time.Minute, RefreshUnwatched: 10 * time.Second, QPS: 50, Burst: 100, Concurrent: 16,
			FailuresPerMinute: 60, FailuresBurst: 20,
		},
		Liveness: config.Liveness{Silence: 10 * time.Second},
		Limits: config.Limits{
			MessageBytes: 4 << 20, HeaderBytes: 16 << 10, Events: 2048, Parts: 16384, Streams: 128, Connections: 256, InFlight: 64 << 20, Request: 4 * time.Second,
		},
		Sinks: config.Sinks{
			Timeout: 3 * time.Second, Log: config.LogSink{Enabled: true},
			Kubernetes: config.KubernetesSink{Enabled: true, ForeignConditions: []string{}, Conditions: 64, Writes: 32, Events: 16},
			Store:      config.StoreSink{Driver: "sqlite", Path: "/var/lib/lanyard/store/events.db", Retention: 30 * 24 * time.Hour},
		},
		Spool: config.Spool{Enabled: true, Directory: "/var/lib/lanyard/spool", Bytes: 256 << 20, Group: 2 * time.Millisecond, RetryMost: 30 * time.Second, GiveUpAttempts: 10, GiveUpAfter: 15 * time.Minute},
	}
}

// deploymentDefaults is what differs in the deployment role.
func deploymentDefaults() config.Settings {
	s := defaults()
	s.Review.Entries, s.Review.QPS, s.Review.Burst, s.Review.Concurrent = 131072, 1000, 2000, 128
	s.Limits.Connections, s.Limits.ConnectionAge, s.Limits.InFlight = 10_000, 10*time.Minute, 256<<20
	s.Sinks.Log.Enabled, s.Sinks.Store.Enabled, s.Spool.Enabled = false, true, false
	return s
}

func TestSettingsDefaults(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"{}", "{sinks: {}, review: {}, limits: {}, selfTest: {}, liveness: {}}"} {
		for role, want := range map[nodebinding.Role]config.Settings{
			nodebinding.Socket: defaults(), nodebinding.Deployment: deploymentDefaults(),
		} {
			got, err := config.ParseSettings([]byte(raw), role)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s of %s (-want +got):\n%s", raw, role, diff)
			}
		}
	}
}

func TestSettingsAccepted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		raw  string
		role nodebinding.Role // empty means socket
		want func(*config.Settings)
	}{
		"switches": {"{strictLiveness: false, overridesNeedToken: true, socket: {requireToken: true, mode: '0660', group: 42, maxConnectionsPerUser: 8}, drainSeconds: 5}", "",
			func(s *config.Settings) {
				s.StrictLiveness, s.OverridesNeedToken, s.Drain = false, true, 5*time.Second
				s.Socket = config.Socket{RequireToken: true, Mode: 0o660, Group: 42, ConnectionsPerUser: 8}
			}},
		"the self-test's tokens": {"{selfTest: {tokenFile: /a/token, apiTokenFile: /b/token}}", "",
			func(s *config.Settings) {
				s.SelfTest = config.SelfTest{TokenFile: "/a/token", APITokenFile: "/b/token"}
			}},
		"publishers": {"{publishers: [gpu/monitor, gpu/monitor, a/b.c]}", nodebinding.Deployment,
			func(s *config.Settings) {
				s.Publishers = []string{"system:serviceaccount:gpu:monitor", "system:serviceaccount:a:b.c"}
			}},
		"an empty list of publishers is given": {"{publishers: []}", nodebinding.Deployment,
			func(s *config.Settings) { s.Publishers = []string{} }},
		"forward over TLS": {"{sinks: {forward: {enabled: true, address: 'lanyard-connector.nvsentinel.svc:50051', caFile: /ca/ca.crt, tokenFile: /t/token}, kubernetes: {enabled: false}}}", "",
			func(s *config.Settings) {
				s.Sinks.Kubernetes.Enabled = false
				s.Sinks.Forward = config.ForwardSink{Enabled: true, Address: "lanyard-connector.nvsentinel.svc:50051", CAFile: "/ca/ca.crt", TokenFile: "/t/token"}
			}},
		"forward over a socket": {"{sinks: {forward: {enabled: true, socket: /var/run/other/nvsentinel.sock}}}", "",
			func(s *config.Settings) {
				s.Sinks.Forward = config.ForwardSink{Enabled: true, Socket: "/var/run/other/nvsentinel.sock"}
			}},
		"postgres": {"{sinks: {store: {driver: postgres, dsnFile: /dsn/url}}}", nodebinding.Deployment,
			func(s *config.Settings) {
				s.Sinks.Store.Driver, s.Sinks.Store.DSNFile = "postgres", "/dsn/url"
			}},
		"events for ever": {"{sinks: {store: {retentionDays: 0}}}", nodebinding.Deployment,
			func(s *config.Settings) { s.Sinks.Store.Retention = 0 }},
		"a small spool": {"{spool: {maxBytes: 16777216}}", "",
			func(s *config.Settings) { s.Spool.Bytes = 16 << 20 }},
		"pods of some namespaces": {"{liveness: {namespaces: [gpu, tools-2, gpu]}}", "",
			func(s *config.Settings) { s.Liveness.Namespaces = []string{"gpu", "tools-2", "gpu"} }},
		"pods of no namespace": {"{liveness: {namespaces: []}}", "",
			func(s *config.Settings) { s.Liveness.Namespaces = []string{} }},
		"large messages need room": {"{limits: {maxMessageBytes: 33554432}}", "",
			func(s *config.Settings) { s.Limits.MessageBytes, s.Limits.InFlight = 32<<20, 128<<20 }},
		"larger batches": {"{limits: {maxEvents: 65536, maxParts: 1}}", "",
			func(s *config.Settings) { s.Limits.Events, s.Limits.Parts = 65536, 1 }},
		"room for messages": {"{limits: {maxInFlightBytes: 16777216}}", "",
			func(s *config.Settings) { s.Limits.InFlight = 16 << 20 }},
		"no spool": {"{spool: {enabled: false}}", "",
			func(s *config.Settings) { s.Spool.Enabled = false }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, role := defaults(), tc.role
			if role == nodebinding.Deployment {
				want = deploymentDefaults()
			} else {
				role = nodebinding.Socket
			}
			tc.want(&want)
			got, err := config.ParseSettings([]byte(tc.raw), role)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSettingsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		raw  string
		role nodebinding.Role // empty means socket
		want []string         // the faults' paths, sorted by line
	}{
		"nothing":                         {"", "", []string{""}},
		"two documents":                   {"{}\n---\n{}", "", []string{""}},
		"a key twice":                     {"strictLiveness: true\nstrictLiveness: false", "", []string{"strictLiveness"}},
		"unknown keys":                    {"strictLivenes: true\nsocket: {requiretoken: true}", "", []string{"strictLivenes", "socket.requiretoken"}},
		"null":                            {"strictLiveness: null", "", []string{"strictLiveness"}},
		"a null section":                  {"socket: null", "", []string{"socket"}},
		"a quoted boolean":                {"strictLiveness: 'true'", "", []string{"strictLiveness"}},
		"a mode without quotes":           {"socket: {mode: 0666}", "", []string{"socket.mode"}},
		"a mode that lets execute":        {"socket: {mode: '0777'}", "", []string{"socket.mode"}},
		"a mode that locks the owner out": {"socket: {mode: '0066'}", "", []string{"socket.mode"}},
		"a group by name":                 {"socket: {group: gpu}", "", []string{"socket.group"}},
		"a relative file":                 {"selfTest: {tokenFile: token, apiTokenFile: /a/../b}", "", []string{"selfTest.apiTokenFile", "selfTest.tokenFile"}},
		"refresh the wrong way round":     {"review: {refreshLeastSeconds: 600, refreshMostSeconds: 300}", "", []string{"review.refreshMostSeconds"}},
		"a refusal kept too long":         {"review: {refusalsMilliseconds: 2001}", "", []string{"review.refusalsMilliseconds"}},
		"a review longer than the call":   {"limits: {requestMilliseconds: 1000}", "", []string{"review.timeoutMilliseconds"}},
		"no room for four messages":       {"limits: {maxInFlightBytes: 16777215}", "", []string{"limits.maxInFlightBytes"}},
		"no event in a batch":             {"limits: {maxEvents: 0, maxParts: 0}", "", []string{"limits.maxEvents", "limits.maxParts"}},
		"batches without a bound":         {"limits: {maxEvents: 65537}", "", []string{"limits.maxEvents"}},
		"nobody may connect":              {"socket: {maxConnectionsPerUser: 0}", "", []string{"socket.maxConnectionsPerUser"}},
		"a call beyond the publishers'":   {"limits: {requestMilliseconds: 5000}", "", []string{"limits.requestMilliseconds"}},
		"a delivery longer than the call": {"{spool: {enabled: false}, sinks: {timeoutMilliseconds: 4000}}", "", []string{"sinks.timeoutMilliseconds"}},
		"more conditions than allowed":    {"sinks: {kubernetes: {maxConditions: 65}}", "", []string{"sinks.kubernetes.maxConditions"}},
		"a condition that is none":        {"sinks: {kubernetes: {foreignConditions: [a b]}}", "", []string{"sinks.kubernetes.foreignConditions[0]"}},
		"no sink":                         {"sinks: {log: {enabled: false}, kubernetes: {enabled: false}}", "", []string{"sinks"}},
		"no sink, deployment":             {"sinks: {store: {enabled: false}, kubernetes: {enabled: false}}", nodebinding.Deployment, []string{"sinks"}},
		"postgres on every node":          {"sinks: {store: {enabled: true, driver: postgres, dsnFile: /dsn}}", "", []string{"sinks.store.driver"}},
		"postgres without a name":         {"sinks: {store: {driver: postgres}}", nodebinding.Deployment, []string{"sinks.store.dsnFile"}},
		"sqlite with a name":              {"sinks: {store: {dsnFile: /dsn}}", nodebinding.Deployment, []string{"sinks.store.dsnFile"}},
		"another driver":                  {"sinks: {store: {driver: mysql}}", nodebinding.Deployment, []string{"sinks.store.driver"}},
		"a negative retention":            {"sinks: {store: {retentionDays: -1}}", nodebinding.Deployment, []string{"sinks.store.retentionDays"}},
		"a spool that a call overflows":   {"spool: {maxBytes: 1048576}", "", []string{"spool.maxBytes"}},
		"forward nowhere":                 {"sinks: {forward: {enabled: true}}", "", []string{"sinks.forward.enabled"}},
		"forward to two places":           {"sinks: {forward: {socket: /s, address: 'a:1', caFile: /c, tokenFile: /t}}", "", []string{"sinks.forward.address"}},
		"forward in clear text":           {"sinks: {forward: {enabled: true, address: 'a:1', tokenFile: /t}}", "", []string{"sinks.forward.caFile"}},
		"forward without a token":         {"sinks: {forward: {enabled: true, address: 'a:1', caFile: /c}}", "", []string{"sinks.forward.tokenFile"}},
		"forward to a URL":                {"sinks: {forward: {address: 'http://a:1', caFile: /c, tokenFile: /t}}", "", []string{"sinks.forward.address"}},
		"forward to port 0":               {"sinks: {forward: {address: 'a:0', caFile: /c, tokenFile: /t}}", "", []string{"sinks.forward.address"}},
		"TLS on a socket":                 {"sinks: {forward: {socket: /s, serverName: a}}", "", []string{"sinks.forward.socket"}},
		"no namespaces at all":            {"liveness: {namespaces: null}", "", []string{"liveness.namespaces"}},
		"one namespace without a list":    {"liveness: {namespaces: gpu}", "", []string{"liveness.namespaces"}},
		"namespaces that are none":        {"liveness: {namespaces: [gpu, '', null, Gpu, a.b, ' a', '" + strings.Repeat("a", 64) + "']}", "", []string{"liveness.namespaces[1]", "liveness.namespaces[2]", "liveness.namespaces[3]", "liveness.namespaces[4]", "liveness.namespaces[5]", "liveness.namespaces[6]"}},
		"namespaces on a deployment":      {"liveness: {namespaces: [gpu]}", nodebinding.Deployment, []string{"liveness.namespaces"}},
		"publishers on a socket":          {"publishers: []", "", []string{"publishers"}},
		"a socket on a deployment":        {"socket: {}\nspool: {}", nodebinding.Deployment, []string{"socket", "spool"}},
		"a publisher by username":         {"publishers: ['system:serviceaccount:a:b', a/b, A/b]", nodebinding.Deployment, []string{"publishers[0]", "publishers[2]"}},
		"everything at once":              {"strictLiveness: 1\ndrainSeconds: 0\nreview: {qps: 0}\nlimits: []\nx: y", "", []string{"strictLiveness", "drainSeconds", "review.qps", "limits", "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			role := tc.role
			if role == "" {
				role = nodebinding.Socket
			}
			got, err := config.ParseSettings([]byte(tc.raw), role)
			if diff := cmp.Diff(tc.want, faultsOf(t, err)); diff != "" {
				t.Errorf("faults (-want +got):\n%s\n%v", diff, err)
			}
			if diff := cmp.Diff(config.Settings{}, got); diff != "" {
				t.Errorf("refused and returned (-want +got):\n%s", diff)
			}
		})
	}
}
