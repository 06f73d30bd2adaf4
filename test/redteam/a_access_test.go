//go:build unix

package redteam

import (
	"context"
	"encoding/base64"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/test/podtest"
)

func TestA25ProbeByDryRun(t *testing.T) {
	t.Parallel()
	documented(t, "field paths only", "values are never repeated")
	w := redteam(t)
	const marker = "marked-secret-value-7f3a"
	bad := []podtest.Edit{
		mainWith(podtest.Env("NMP_PRINCIPAL", marker), podtest.Env("NMP_BASE_URL", "https://"+marker), podtest.Env("nmp_principal", marker)),
		podtest.Annotation("lanyard.dev/token-expiration-seconds", marker), podtest.Annotation("lanyard.dev/containers", "main"),
		podtest.Volume(`{"name":"nmp-workload-identity","secret":{"secretName":"` + marker + `"}}`),
	}
	for _, query := range []string{"?dryRun=All", ""} {
		a := w.as(attacker).do(t.Context(), http.MethodPost, at(managed, "pods")+query, pod(bad...))
		a.refused(t, byJob, "reserved_env", "spec.containers[0].env[0].name")
		a.silent(t, marker)
		for k, v := range a.annotations(t) {
			if strings.Contains(v, marker) {
				t.Errorf("audit annotation %s repeats the value", k)
			}
		}
	}
	a := w.as(attacker).do(t.Context(), http.MethodPost, at(managed, "apps/v1/deployments")+"?dryRun=All", deployment(bad[0]))
	a.refused(t, byNames, "env[NMP_PRINCIPAL]")
	a.silent(t, marker)
	log, err := os.ReadFile(w.cp.Path("log", "webhook.log"))
	if err != nil || len(log) == 0 {
		t.Fatalf("the webhook's log has %d bytes: %v", len(log), err)
	}
	if strings.Contains(string(log), marker) {
		t.Error("the webhook's log repeats the value")
	}
}

// TestA26CopyAPod copies as kubectl debug --copy-to does: labels dropped or kept, volumes kept, a container added.
func TestA26CopyAPod(t *testing.T) {
	t.Parallel()
	documented(t, "without a right to it: refused; with it: injected anew", "policy, webhook")
	mallory := redteam(t).as(attacker)
	copied := func(from object, labels bool) object {
		spec := value(from, "spec").(map[string]any)
		cs, _ := spec["containers"].([]any)
		spec["containers"] = append(cs, object(podtest.Container("debugger")))
		meta := object{"generateName": "copy-", "annotations": value(from, "metadata", "annotations")}
		if labels {
			meta["labels"] = value(from, "metadata", "labels")
		}
		return object{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
	}
	pub := func() object { return mallory.pod(t, publishing, asPublisher()).accepted(t) }
	mallory.create(t, publishing, "pods", copied(pub(), false)).refused(t, byAudience, "nor does the pod have the publisher role")
	for name, o := range map[string]object{
		"a publisher":                   mallory.create(t, publishing, "pods", copied(pub(), true)).accepted(t),
		"a job's pod, labels dropped":   mallory.create(t, managed, "pods", copied(mallory.pod(t, managed).accepted(t), false)).accepted(t),
		"a job's pod, labels kept":      mallory.create(t, managed, "pods", copied(mallory.pod(t, managed).accepted(t), true)).accepted(t),
		"a bystander's pod, mine since": mallory.create(t, managed, "pods", copied(redteam(t).as(bystander).pod(t, managed).accepted(t), true)).accepted(t),
	} {
		volume := jobVolume
		if name == "a publisher" {
			volume = publisherVolume
		} else if got := text(o, "metadata", "annotations", stampKey); got != attacker {
			t.Errorf("%s: the copy is stamped %q, want %q", name, got, attacker)
		}
		if got := holders(o, volume); !slices.Equal(got, []string{"main"}) {
			t.Errorf("%s: the containers with the token are %q, want no more than before", name, got)
		}
	}
	mallory.create(t, plain, "pods", copied(pub(), true)).refused(t, byAudience, "red-plain/default")
	carried := copied(mallory.pod(t, managed).accepted(t), true)
	delete(carried.At("metadata"), "annotations")
	mallory.create(t, plain, "pods", carried).refused(t, byAudience, "only pods of managed jobs")
}

// TestA27DebugContainerWithTheJobsProcesses shows the limit: a platform admin's debug container that shares the process
// namespace is let in, and no admission sees what it opens below /proc. Nobody else may add one, and the built-in role edit
// gives nobody the right.
func TestA27DebugContainerWithTheJobsProcesses(t *testing.T) {
	t.Parallel()
	documented(t, "**reads the token**", "`lanyard-managed-pods`", "RBAC on `pods/ephemeralcontainers`")
	w := redteam(t)
	name := w.as(attacker).pod(t, managed).name(t)
	spy := podtest.Container("spy", podtest.Field("targetContainerName", "main"))
	stored := w.root().debug(t, managed, name, spy).accepted(t)
	if got := text(stored, "spec", "ephemeralContainers", 0, "targetContainerName"); got != "main" {
		t.Errorf("the debug container is %v", value(stored, "spec", "ephemeralContainers"))
	}
	shared := w.as(attacker).pod(t, managed, podtest.Spec("shareProcessNamespace", true), podtest.Containers(podtest.Container("main"), podtest.Container("istio-proxy")))
	if got := holders(shared.accepted(t), jobVolume); !slices.Equal(got, []string{"main"}) {
		t.Errorf("the containers with the token are %q", got)
	}
	if w.may(t.Context(), w.as("nobody"), managed, "patch", "", "pods/ephemeralcontainers") {
		t.Error("somebody without a role may add debug containers")
	}
}

// TestA28Exec tries every way into a running pod as somebody whom RBAC gives them all. A platform admin gets as far as the node,
// which is not there.
func TestA28Exec(t *testing.T) {
	t.Parallel()
	documented(t, "refused, except from platform admins", "`lanyard-pod-access`")
	w := redteam(t)
	mallory := w.as(attacker)
	name := w.as(bystander).pod(t, managed).name(t)
	for _, sub := range []string{"exec?command=cat&stdout=true&container=main", "attach?stdout=true&container=main"} {
		mallory.do(t.Context(), http.MethodPost, at(managed, "pods")+"/"+name+"/"+sub, nil).refused(t, byAccess, "is for platform admins")
		a := w.root().do(t.Context(), http.MethodPost, at(managed, "pods")+"/"+name+"/"+sub, nil)
		if a.code == http.StatusForbidden || !strings.Contains(a.message, "does not have a host assigned") {
			t.Errorf("%s is answered with %d (%s), want nothing but the missing node", sub, a.code, a.message)
		}
		w.as("nobody").do(t.Context(), http.MethodPost, at(managed, "pods")+"/"+name+"/"+sub, nil).refused(t, "cannot create resource", "pods/")
	}
	mallory.do(t.Context(), http.MethodPost, at(managed, "pods")+"/"+name+"/portforward", nil).refused(t, byAccess, "portforward is for platform admins")
	mallory.do(t.Context(), http.MethodGet, at(managed, "pods")+"/"+name+"/proxy/", nil).refused(t, byAccess, "proxy is for platform admins")
	mallory.do(t.Context(), http.MethodGet, at(managed, "services")+"/any/proxy/", nil).refused(t, byAccess, "pods behind services")
}

func TestA29AskTheTokenAPI(t *testing.T) {
	t.Parallel()
	documented(t, "refused, except kubelets and listed identities", "`lanyard-token-requests`")
	w := redteam(t)
	mallory := w.as(attacker)
	request := func(audiences ...string) object {
		return object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": object{"audiences": audiences}}
	}
	for _, namespace := range []string{plain, managed, listed, publishing} {
		path := at(namespace, "serviceaccounts") + "/default/token"
		for _, audiences := range [][]string{{jobAudience}, {publisherAudience}, {"vault", jobAudience}, {jobAudience, publisherAudience}} {
			mallory.do(t.Context(), http.MethodPost, path, request(audiences...)).refused(t, byTokens, "handed out in no other way")
			mallory.do(t.Context(), http.MethodPost, path+"?dryRun=All", request(audiences...)).refused(t, byTokens, "handed out in no other way")
			w.root().do(t.Context(), http.MethodPost, path, request(audiences...)).refused(t, byTokens, "handed out in no other way")
		}
		mallory.do(t.Context(), http.MethodPost, path, request("vault")).accepted(t)
		mallory.do(t.Context(), http.MethodPost, path, request()).accepted(t)
	}
	// A listed identity may; one that merely resembles it may not.
	if err := w.grant(t.Context(), plain, "edit", "system:serviceaccount:red-plain:broker"); err != nil {
		t.Fatal(err)
	}
	broker := w.as("system:serviceaccount:red-plain:broker")
	path := at(plain, "serviceaccounts") + "/default/token"
	eventually(t, "the broker has its rights", func(ctx context.Context) (bool, error) {
		return broker.do(ctx, http.MethodPost, path, request("vault")).code == http.StatusCreated, nil
	})
	broker.do(t.Context(), http.MethodPost, path, request(jobAudience)).accepted(t)
	w.as("system:serviceaccount:red-plain:broker ", "system:masters").do(t.Context(), http.MethodPost, path, request(jobAudience)).refused(t, byTokens, "handed out")
}

// TestA30SecretBasedToken asks for a token without end, and has the API server say what it is good for.
func TestA30SecretBasedToken(t *testing.T) {
	t.Parallel()
	documented(t, "has no audience of ours", "receiver")
	w := redteam(t)
	mallory := w.as(attacker)
	secret := mallory.create(t, managed, "secrets", object{
		"type":     "kubernetes.io/service-account-token",
		"metadata": object{"generateName": "forever-", "annotations": object{"kubernetes.io/service-account.name": "default"}},
	})
	var token string
	eventually(t, "the token is written", func(ctx context.Context) (bool, error) {
		got := mallory.do(ctx, http.MethodGet, at(managed, "secrets")+"/"+secret.name(t), nil)
		raw, err := base64.StdEncoding.DecodeString(text(decoded(t, string(got.body)), "data", "token"))
		token = string(raw)
		return token != "", err
	})
	for _, audience := range []string{jobAudience, publisherAudience} {
		if w.authenticates(t, token, audience) {
			t.Errorf("the token is good for %s", audience)
		}
	}
	if !w.authenticates(t, token, "") {
		t.Error("the token is good for nothing, so the test proves nothing")
	}
}

// authenticates asks the API server whether a token is good for an audience; empty is the API server's own.
func (w *world) authenticates(t *testing.T, token, audience string) bool {
	t.Helper()
	spec := object{"token": token}
	if audience != "" {
		spec["audiences"] = []string{audience}
	}
	review := w.root().do(t.Context(), http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews", object{"spec": spec}).accepted(t)
	ok, _ := value(review, "status", "authenticated").(bool)
	return ok
}

// TestA31HostPath shows the limit, and that Pod Security answers without standing in the way of injection.
func TestA31HostPath(t *testing.T) {
	t.Parallel()
	documented(t, "**reads every token of the node**", "Pod Security")
	mallory := redteam(t).as(attacker)
	kubelet := podtest.Volume(`{"name":"node","hostPath":{"path":"/var/lib/kubelet/pods"}}`)
	mallory.pod(t, managed, kubelet, mainWith(podtest.Mount("node", "/node", false))).accepted(t)
	mallory.pod(t, baseline, kubelet, mainWith(podtest.Mount("node", "/node", false))).refused(t, `violates PodSecurity "baseline`, "hostPath")
	if got := holders(mallory.pod(t, baseline).accepted(t), jobVolume); !slices.Equal(got, []string{"main"}) {
		t.Errorf("the containers with the token are %q", got)
	}
}
