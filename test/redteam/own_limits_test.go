//go:build unix

package redteam

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// TestOwnSymbolicLinks shows a limit: links in an image, or in a volume mounted higher up, are seen by the runtime alone. A
// job's author who plants one covers the token of the own container and of no other.
func TestOwnSymbolicLinks(t *testing.T) {
	t.Parallel()
	mallory := redteam(t).as(attacker)
	stored := mallory.pod(t, managed, podtest.Volume(`{"name":"links","emptyDir":{}}`), podtest.Volume(`{"name":"mine","secret":{"secretName":"x","optional":true}}`),
		podtest.In("initContainers", podtest.Container("plant", podtest.Mount("links", "/links", false))),
		mainWith(podtest.Mount("links", "/var/run/secrets", false), podtest.Mount("mine", "/a/b/c/d/e/workload", true))).accepted(t)
	if got := holders(stored, jobVolume); !slices.Equal(got, []string{"main"}) {
		t.Errorf("the containers with the token are %q", got)
	}
}

// TestOwnPropagation shows a limit and its answer: what is mounted below a shared mount of the host may show on the host.
// Only privileged containers may share, which Pod Security refuses.
func TestOwnPropagation(t *testing.T) {
	t.Parallel()
	mallory := redteam(t).as(attacker)
	shared := []podtest.Edit{podtest.Volume(`{"name":"host","hostPath":{"path":"/srv"}}`), mainWith(
		podtest.Field("securityContext", object{"privileged": true}), podtest.MountRaw(`{"name":"host","mountPath":"/var/run/secrets","mountPropagation":"Bidirectional"}`))}
	mallory.pod(t, managed, shared...).accepted(t)
	mallory.pod(t, baseline, shared...).refused(t, `violates PodSecurity "baseline`, "privileged")
}

// TestOwnWhatEnvFromAndServicesBring shows a limit: names that only share a prefix can come in by a key of a ConfigMap or by
// a Service's name, since nobody can write an empty entry for each. The five exact names cannot.
func TestOwnWhatEnvFromAndServicesBring(t *testing.T) {
	t.Parallel()
	mallory := redteam(t).as(attacker)
	mallory.create(t, managed, "services", object{"metadata": object{"name": "nmp-workload"}, "spec": object{"ports": []any{object{"port": 80}}}}).accepted(t)
	settings := mallory.create(t, managed, "configmaps", object{"metadata": object{"generateName": "settings-"}, "data": object{"NMP_WORKLOAD_X": "1", "NMP_PRINCIPAL": "root"}}).name(t)
	read := func(c object) { c["envFrom"] = []any{object{"configMapRef": object{"name": settings}}} }
	neutralised(t, mallory.pod(t, managed, mainWith(read), podtest.In("initContainers", podtest.Container("setup", read))).accepted(t))
}

// TestOwnRedirectTheExchange tries to send the token elsewhere. Variables are warned of, and refused with protectEndpoints;
// names of hosts and proxies are not looked at: TLS with the platform's certificate answers those.
func TestOwnRedirectTheExchange(t *testing.T) {
	t.Parallel()
	mallory := redteam(t).as(attacker)
	for _, name := range []string{"NMP_BASE_URL", "NMP_AUTH_URL", "NMP__URL", "NMP_CLIENT_SSL_CERT_FILE"} {
		edit := mainWith(podtest.Env(name, "https://evil.example.com"))
		a := mallory.pod(t, managed, edit)
		a.accepted(t)
		a.warned(t, "may send the platform's token elsewhere")
		a.silent(t, "evil")
		refusedPure(t, rules(t, "admission: {protectEndpoints: true}"), pod(edit), "endpoint_redirect")
	}
	stored := mallory.pod(t, managed, podtest.Spec("hostAliases", []any{object{"ip": "192.0.2.1", "hostnames": []string{"lanyard-exchange.lanyard-system.svc"}}}),
		podtest.Spec("dnsPolicy", "None"), podtest.Spec("dnsConfig", object{"nameservers": []string{"192.0.2.2"}}), mainWith(podtest.Env("HTTPS_PROXY", "http://192.0.2.3"))).accepted(t)
	if url, _ := env(stored, 0, "NMP_BASE_URL"); url != "https://lanyard-exchange.lanyard-system.svc:8443" {
		t.Errorf("NMP_BASE_URL is %q", url)
	}
	if file, _ := env(stored, 0, "NMP_CLIENT_SSL_CERT_FILE"); file != "/var/run/secrets/nemo-platform/ca/ca.crt" {
		t.Errorf("NMP_CLIENT_SSL_CERT_FILE is %q", file)
	}
	// Whoever may edit the namespace may edit the certificate's ConfigMap in it; the exchange keeps it, and doctor compares.
	mallory.create(t, managed, "configmaps", object{"metadata": object{"name": "lanyard-ca"}, "data": object{"ca.crt": "mine"}}).accepted(t)
}

// TestOwnExpensivePods makes the policies compute. A pod that costs more than a policy may is refused, not waved through, and
// the API server goes on; an ordinary large pod goes through.
func TestOwnExpensivePods(t *testing.T) {
	t.Parallel()
	mallory := redteam(t).as(attacker)
	many := func(n int, name string) podtest.Edit {
		var list []any
		for i := range n {
			list = append(list, object{"name": fmt.Sprintf(name, i), "value": ""})
		}
		return mainWith(podtest.Field("env", list))
	}
	mallory.pod(t, managed, many(5000, "SETTING_%d")).accepted(t)
	begin := time.Now()
	a := mallory.pod(t, managed, many(8000, "NMP_WORKLOAD_%d"))
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	if a.code == http.StatusCreated {
		t.Log("eight thousand empty entries are within the budget")
	} else if a.code != http.StatusForbidden && a.code != http.StatusUnprocessableEntity || !strings.Contains(a.message, "lanyard-reserved-names") {
		t.Errorf("answered with %d: %s", a.code, a.message)
	}
	a = mallory.pod(t, managed, many(2000, "NMP_WORKLOAD_%d"), podtest.Annotation("x", "y"), podtest.In("initContainers", podtest.Container("bad", podtest.Env("NMP_PRINCIPAL", "root"))))
	a.refused(t, byJob, "reserved_env")
	mallory.pod(t, plain, many(8000, "NMP_WORKLOAD_%d")).accepted(t)
}

// TestOwnNamesInAnswers puts what steers terminals and headers into names that answers repeat.
func TestOwnNamesInAnswers(t *testing.T) {
	t.Parallel()
	w := redteam(t)
	w.define(t, "trainings", "Training")
	evil := "x\r\nX-Evil: 1\x1b[31m\u202e"
	thing := object{"apiVersion": "red.example.com/v1", "kind": "Training", "metadata": object{"generateName": "x-"}, "spec": object{
		evil: object{"spec": object{"containers": []any{object{"name": "main", "env": []any{object{"name": "nmp_principal"}, object{"name": "NMP_PRINCIPAL" + evil}}}}}},
	}}
	a := w.root().create(t, managed, "red.example.com/v1/trainings", thing)
	a.accepted(t)
	if len(a.warnings) == 0 {
		t.Error("no warning of the look-alike")
	}
	thing.At("spec")["bad"] = object{"spec": object{"containers": []any{object{"name": evil, "env": []any{object{"name": "NMP_PRINCIPAL", "value": "x"}, object{"name": "NMP_WORKLOAD_" + evil, "value": "x"}}}}}}
	b := w.root().create(t, managed, "red.example.com/v1/trainings", thing)
	b.refused(t, byTemplate, "reserved_env")
	for _, said := range append(a.warnings, b.message) {
		if strings.ContainsAny(said, "\r\n\x1b\u202e") {
			t.Errorf("the answer repeats control characters: %q", said)
		}
	}
}
