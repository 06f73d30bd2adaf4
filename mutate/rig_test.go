package mutate_test

import (
	"encoding/json"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate"
)

// testRules are the defaults of the chart with the CA for jobs, one listed publisher and one cross-node account.
func testRules() mutate.Rules {
	return mutate.Rules{
		Mode:           mutate.Enforce,
		SkipContainers: []string{"istio-proxy", "istio-init", "linkerd-proxy", "linkerd-init", "vault-agent", "vault-agent-init"},
		Publisher: &mutate.PublisherRules{
			Token: mutate.Token{
				Audience: wire.DefaultPublisherAudience, ExpirationSeconds: 3600, MaxExpirationSeconds: 86400, MountPath: wire.DefaultPublisherMountPath,
			},
			Listed:    []string{"monitoring/gpu-monitor"},
			CrossNode: []string{"system:serviceaccount:monitoring:csp-monitor"},
		},
		Job: &mutate.JobRules{
			Token: mutate.Token{
				Audience: wire.DefaultJobAudience, ExpirationSeconds: 600, MaxExpirationSeconds: 3600, MountPath: wire.DefaultJobMountPath,
			},
			BaseURL: "https://lanyard-exchange.lanyard.svc:8443", CAConfigMap: wire.DefaultCAConfigMap,
			Kinds: []mutate.GroupKind{{Group: "batch", Kind: "Job"}},
		},
	}
}

// jobRequest asks /mutate/job or /validate/job to create a pod for alice.
func jobRequest(object []byte) mutate.Request {
	return mutate.Request{
		Entry: mutate.EntryJob, Operation: mutate.Create, Kind: mutate.GroupKind{Kind: "Pod"},
		Namespace: "team", Username: "alice", Groups: []string{"researchers", "system:authenticated"}, Object: object,
	}
}

// apply applies a patch the way the API server does.
func apply(t testing.TB, object []byte, ops []mutate.Op) []byte {
	t.Helper()
	if len(ops) == 0 {
		return object
	}
	text, err := json.Marshal(ops)
	if err != nil {
		t.Fatal(err)
	}
	p, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Apply(object)
	if err != nil {
		t.Fatalf("applying %s: %v", text, err)
	}
	return out
}

// field reads a member of a JSON object.
func field(t testing.TB, object []byte, keys ...string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(object, &v); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}
