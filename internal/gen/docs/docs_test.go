package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
	"github.com/lanyard-k8s/lanyard/exchange/provenance"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
	"github.com/lanyard-k8s/lanyard/webhook/settings"
)

const root = "../../.."

// TestThePagesAreFresh leaves out the commands, whose help is slow to get; `make verify` compares those too.
func TestThePagesAreFresh(t *testing.T) {
	t.Parallel()
	for name, page := range map[string]func(string) ([]byte, error){
		"reasons.md": reasonsPage, "metrics.md": metricsPage, "configuration.md": configurationPage,
		"configuration-connector.md": connectorPage, "configuration-exchange.md": exchangePage,
	} {
		want, err := page(root)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := os.ReadFile(filepath.Join(root, reference, name))
		if err != nil {
			t.Errorf("%v; run make generate", err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is stale; run make generate (-want +got):\n%s", name, diff)
		}
	}
}

func TestEveryReasonHasAdviceAndNothingElseHas(t *testing.T) {
	t.Parallel()
	for _, r := range violation.Reasons() {
		if advice()[r] == "" {
			t.Errorf("reason %s has no advice", r)
		}
	}
	if got, want := len(advice()), len(violation.Reasons()); got != want {
		t.Errorf("advice for %d reasons, want %d", got, want)
	}
	if got, want := len(remedies()), len(nodebinding.Reasons()); got != want {
		t.Errorf("remedies for %d reasons of the connector, want %d", got, want)
	}
}

// TestTheExchangesAdviceIsAboutReasons looks for advice about what is no reason; the page itself fails where some is missing.
func TestTheExchangesAdviceIsAboutReasons(t *testing.T) {
	t.Parallel()
	if got, want := len(grantAdvice()), len(grant.Reasons()); got != want {
		t.Errorf("advice for %d reasons of the token endpoint, want %d", got, want)
	}
	if got, want := len(endingAdvice()), len(delegation.Reasons()); got != want {
		t.Errorf("advice for %d ends, want %d", got, want)
	}
	for r := range verdictAdvice() {
		if r.Message() != "" || !slices.Contains(provenance.Reasons(), r) {
			t.Errorf("advice for %s, which has its own or is no reason", r)
		}
	}
}

// required is the least that the loader accepts: the keys that have no default.
const required = `
publisher: {enabled: true}
job: {enabled: true, baseURL: "https://lanyard-exchange.lanyard.svc:8443"}
`

func TestTheExampleConfigurationIsTheDefaults(t *testing.T) {
	t.Parallel()
	want, err := settings.Parse([]byte(required))
	if err != nil {
		t.Fatal(err)
	}
	got, err := settings.Parse(webhookYAML)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func TestSubcommands(t *testing.T) {
	t.Parallel()
	const help = "Usage:\n\nAvailable Commands:\n  completion  Generate\n  doctor      Examine\n  preview     Show\n  help        Help\n\nFlags:\n  -h  x\n"
	if diff := cmp.Diff([]string{"doctor", "preview"}, subcommands(help)); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

// TestTheHandbookNamesEveryPolicy holds admission.md against the chart's policies.
func TestTheHandbookNamesEveryPolicy(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(filepath.Join(root, "charts/lanyard/templates/policies.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	handbook, err := os.ReadFile(filepath.Join(root, "docs/admission.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^  name: (lanyard-[a-z-]+)$`).FindAllStringSubmatch(string(source), -1)
	if len(names) == 0 {
		t.Fatal("the chart has no policies; has the template moved?")
	}
	for _, m := range names {
		if !strings.Contains(string(handbook), "`"+m[1]+"`") {
			t.Errorf("docs/admission.md does not name policy %s", m[1])
		}
	}
}

// TestTheReadmeListsTheDemosScenes holds the README's numbered list to the demo.
func TestTheReadmeListsTheDemosScenes(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(filepath.Join(root, "demo/scenes.go"))
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, m := range regexp.MustCompile(`(?m)^\t\t\{"([^"]+)", [A-Za-z]+\},$`).FindAllStringSubmatch(string(source), -1) {
		want = append(want, m[1]+".")
	}
	for _, m := range regexp.MustCompile(`(?m)^[0-9]+\. (.+)$`).FindAllStringSubmatch(string(readme), -1) {
		got = append(got, m[1])
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
		t.Errorf("scenes (-want +got):\n%s", diff)
	}
}

// TestEveryAlertHasARunbook looks for a heading of each alert's name, and for the link to it.
func TestEveryAlertHasARunbook(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "charts/lanyard/files/alerts*.yaml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("found %d files of alerts, %v; have they moved?", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^ +- alert: ([A-Za-z]+)$`).FindAllStringSubmatch(string(text), -1) {
			if !leads(filepath.Join(root, "docs/runbooks.md"), "#"+strings.ToLower(m[1])) {
				t.Errorf("docs/runbooks.md has no paragraph for %s", m[1])
			}
			if !strings.Contains(string(text), "/docs/runbooks.md#"+strings.ToLower(m[1])+"\n") {
				t.Errorf("%s: %s does not link its runbook", file, m[1])
			}
		}
	}
}
