//go:build unix

package redteam

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// podCase is a pod that the policies judge, and the webhook's rules where an entry reaches it.
type podCase struct {
	Name     string   `json:"name"`
	In       string   `json:"in"`
	Role     *string  `json:"role"`
	Injected *string  `json:"injected"`
	Stamp    *string  `json:"stamp"`
	Account  string   `json:"account"`
	Owner    []string `json:"owner"`
	Volume   string   `json:"volume"`
	Sources  []string `json:"sources"`
	Seconds  int      `json:"seconds"`
	Policy   string   `json:"policy"`
	Webhook  []string `json:"webhook"`
}

func load[T any](t *testing.T, file string) []T {
	t.Helper()
	raw, err := os.ReadFile("testdata/corpus/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []T
	if err := yaml.UnmarshalStrict(raw, &cases); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return cases
}

// TestPoliciesAndWebhookAgree tries the corpus by dry run with the policies alone and compares their answers with those of
// the webhook's rules, in both modes.
func TestPoliciesAndWebhookAgree(t *testing.T) {
	w := redteam(t)
	names, pods := load[nameCase](t, "names.yaml"), load[podCase](t, "pods.yaml")
	if n := len(names)*len(places()) + len(pods); n < 120 {
		t.Fatalf("the corpus has %d objects", n)
	}
	debugged := w.as(attacker).pod(t, managed).name(t)
	t.Cleanup(func() {
		w.act(t, "Deny")
		if err := w.in.ApplyWebhooks(context.Background()); err != nil {
			t.Error(err)
		}
		if err := w.in.ApplyPolicies(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := w.in.RemoveWebhooks(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range pods {
		t.Run("enforce/"+c.In+"/"+c.Name, func(t *testing.T) { c.compare(t, w) })
	}
	for _, c := range names {
		t.Run("enforce/"+c.Name, func(t *testing.T) { c.enforced(t, w, debugged) })
	}
	w.loosen(t)
	for _, c := range names {
		t.Run("audit/"+c.Name, func(t *testing.T) { c.audited(t, w, debugged) })
	}
	for _, c := range pods {
		t.Run("audit/"+c.In+"/"+c.Name, func(t *testing.T) { c.compare(t, w) })
	}
}

// loosen gives the policy of the reserved names the actions of mode audit, as the chart renders them.
func (w *world) loosen(t *testing.T) {
	t.Helper()
	w.act(t, "Audit", "Warn")
	bad := pod(mainWith(podtest.Env("NMP_PRINCIPAL", "x")), podtest.Annotation(stampKey, attacker))
	eventually(t, "the policy only warns", func(ctx context.Context) (bool, error) {
		return w.as(attacker).do(ctx, http.MethodPost, at(managed, "pods")+"?dryRun=All", bad).code == http.StatusCreated, nil
	})
}

// act gives the policy of the reserved names other actions.
func (w *world) act(t *testing.T, actions ...string) {
	t.Helper()
	const binding = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/lanyard-reserved-names"
	w.root().do(context.Background(), http.MethodPatch, binding, object{"spec": object{"validationActions": actions}}).accepted(t)
}

// pod is the case's pod.
func (c podCase) pod() object {
	edits := []podtest.Edit{mainWith()}
	for key, v := range map[string]*string{roleKey: c.Role, "lanyard.dev/injected": c.Injected} {
		if v != nil {
			edits = append(edits, podtest.Label(key, *v))
		}
	}
	if c.Stamp != nil {
		edits = append(edits, podtest.Annotation(stampKey, *c.Stamp))
	}
	if c.Account != "" {
		edits = append(edits, account(c.Account))
	}
	if len(c.Owner) == 2 {
		edits = append(edits, podtest.Owner(c.Owner[0], c.Owner[1]))
	}
	if len(c.Sources) > 0 {
		var sources []string
		seconds := c.Seconds
		if seconds == 0 {
			seconds = 3600
		}
		for i, audience := range c.Sources {
			path := "token"
			if i > 0 {
				path = fmt.Sprint("token", i)
			}
			sources = append(sources, fmt.Sprintf(`{"serviceAccountToken":{"audience":%q,"expirationSeconds":%d,"path":%q}}`, audience, seconds, path))
		}
		name := c.Volume
		if name == "" {
			name = "own"
		}
		edits = append(edits, projecting(name, sources...))
	}
	return pod(edits...)
}

// compare asks both layers.
func (c podCase) compare(t *testing.T, w *world) {
	o := c.pod()
	a := w.as(attacker).do(t.Context(), http.MethodPost, at("red-"+c.In, "pods")+"?dryRun=All", o)
	if c.Policy != "" {
		a.refused(t, "policy "+c.Policy, "")
	} else if a.code != http.StatusCreated {
		t.Errorf("the policies refuse with %d: %s", a.code, a.message)
	}
	if c.Webhook == nil {
		return
	}
	d, err := mutate.Verify(mutate.Request{
		Entry:     map[string]mutate.Entry{"managed": mutate.EntryJob, "publishing": mutate.EntryPublisher, "listed": mutate.EntryListed}[c.In],
		Operation: mutate.Create, Kind: mutate.GroupKind{Kind: "Pod"}, Namespace: "red-" + c.In, Username: attacker, Object: o.JSON(),
	}, rules(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, v := range d.Violations {
		if v.Reason != violation.NotInjected && !slices.Contains(got, string(v.Reason)) {
			got = append(got, string(v.Reason))
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, c.Webhook) {
		t.Errorf("the webhook's rules say %q, want %q", got, c.Webhook)
	}
	// Stamps are no fault to the webhook: it writes the right one, which is the one that the policy accepts. Who may make a Job's
	// pods is the policies' alone to say.
	if theirs := strings.HasPrefix(c.Policy, "lanyard-creator-") || c.Policy == "lanyard-job-pods"; c.Policy != "" && !theirs && d.Outcome != mutate.Denied {
		t.Errorf("a policy refuses what the webhook's rules call %s", d.Outcome)
	}
	if c.In == "managed" {
		c.stamped(t, o)
	}
}

// stamped asks what the webhook would write as the stamp: nothing exactly where the policies are content with what is there.
func (c podCase) stamped(t *testing.T, o object) {
	t.Helper()
	job := object{"apiVersion": "batch/v1", "kind": "Job", "metadata": object{"annotations": o.At("metadata")["annotations"]}, "spec": object{}}
	d, err := mutate.Stamp(mutate.Request{
		Entry: mutate.EntryJob, Operation: mutate.Create, Kind: mutate.GroupKind{Group: "batch", Kind: "Job"}, Namespace: managed, Username: attacker, Object: job.JSON(),
	}, rules(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	if content := !strings.HasPrefix(c.Policy, "lanyard-creator-"); content != (len(d.Patch) == 0) {
		t.Errorf("the policies are content with the stamp: %t, the webhook writes another: %t", content, len(d.Patch) > 0)
	}
}
