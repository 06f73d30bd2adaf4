//go:build unix

package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// helmCommand finds helm's installs and upgrades of the chart in a page's examples, with the lines that they go on over.
var helmCommand = regexp.MustCompile(`(?m)^ {4,}helm (install|upgrade) lanyard charts/lanyard ((?:.*\\\n)*.*)$`)

// TestTheInstallsOfThePagesCanWork holds every install that a page shows to what one needs: an image that exists, which the default does
// not name, a namespace that admits the DaemonSet's pods, and values that the chart takes. The chart's README had one without either.
func TestTheInstallsOfThePagesCanWork(t *testing.T) {
	t.Parallel()
	installs := 0
	for _, page := range pages(t) {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range helmCommand.FindAllStringSubmatchIndex(string(raw), -1) {
			if string(raw[m[2]:m[3]]) != "install" {
				continue
			}
			installs++
			args := flags(string(raw[m[4]:m[5]]))
			if _, err := findHelm(t).Template(t.Context(), args...); err != nil {
				t.Errorf("%s: %v", page, err)
			}
			if !strings.Contains(strings.Join(args, " "), "image.repository=REGISTRY/") {
				t.Errorf("%s: an install names no image, and none is published", page)
			}
			before := string(raw[max(0, m[0]-600):m[0]])
			if !strings.Contains(before, "kubectl label namespace lanyard pod-security.kubernetes.io/enforce=privileged") {
				t.Errorf("%s: an install into a namespace that is not labelled", page)
			}
		}
	}
	if installs < 4 {
		t.Errorf("found %d installs; the pages have four", installs)
	}
}

// TestTheUpgradesOfThePagesLoseNoValue: every install of the pages is by --set alone, and an upgrade with a file that lacks these values
// takes them back. So a page that gives a file says before where it comes from; the others reuse the release's, over the new chart's
// defaults: with --reuse-values the older chart's would come along.
func TestTheUpgradesOfThePagesLoseNoValue(t *testing.T) {
	t.Parallel()
	upgrades := 0
	for _, page := range pages(t) {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range helmCommand.FindAllStringSubmatchIndex(string(raw), -1) {
			if string(raw[m[2]:m[3]]) != "upgrade" {
				continue
			}
			upgrades++
			command, before := string(raw[m[4]:m[5]]), string(raw[:m[0]])
			if !strings.Contains(command, "--reset-then-reuse-values") && !(strings.Contains(command, "-f values.yaml") && strings.Contains(before, "helm get values lanyard --namespace lanyard -o yaml > values.yaml")) {
				t.Errorf("%s: helm upgrade %s would lose the values of the install", page, command)
			}
		}
	}
	if upgrades < 3 {
		t.Errorf("found %d upgrades; the pages have three", upgrades)
	}
}

// TestTheValuesOfTheSizingPage renders them, and holds them to the table at the page's top: publishers in two namespaces are on the list,
// or every one of them would cost a review in ten seconds.
func TestTheValuesOfTheSizingPage(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/sizing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, values, found := strings.Cut(string(raw), "```yaml\n")
	values, _, _ = strings.Cut(values, "```")
	if !found || values == "" {
		t.Fatal("the page has no values")
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	watched := 0
	for _, p := range permissions(t, "default", "-f", file) {
		if strings.HasPrefix(p, "lanyard-connector -> lanyard-connector-pods in ") {
			watched++
		}
	}
	if watched != 2 {
		t.Errorf("the nodes watch pods in %d namespaces, the page counts with 2", watched)
	}
}

// TestThePagesNameTheChartsValues: keys of the webhook's own file go by other names in the values; a page that is not about that file
// sent people to a value that is refused.
func TestThePagesNameTheChartsValues(t *testing.T) {
	t.Parallel()
	foreign := regexp.MustCompile("`(injection|publisher|job)\\.[a-z][A-Za-z]*`")
	for _, page := range pages(t) {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range foreign.FindAllString(string(raw), -1) {
			if found != "`publisher.job`" { // the value of a label
				t.Errorf("%s: %s is no value of the chart", page, found)
			}
		}
	}
}

// TestTheChartSendsPeopleToSectionsThatExist looks up every page that the chart's comments and notes name, and its section, which they
// must name: a section moves to another page more easily than it is renamed.
func TestTheChartSendsPeopleToSectionsThatExist(t *testing.T) {
	t.Parallel()
	pointer, heading, sent := regexp.MustCompile(`docs/([a-z-]+\.md)(?:#([a-z0-9-]+))?`), regexp.MustCompile(`(?m)^#+ (.*)$`), 0
	chart, err := filepath.Glob("../../charts/lanyard/templates/*.*")
	if err != nil || len(chart) == 0 {
		t.Fatalf("the chart has no templates: %v", err)
	}
	for _, file := range append(chart, "../../charts/lanyard/values.yaml") {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range pointer.FindAllStringSubmatch(string(raw), -1) {
			if sent++; m[0] == "docs/admission.md" {
				continue // admission.docsURL, where every refusal sends people
			}
			page, err := os.ReadFile("../../docs/" + m[1])
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			var anchors []string
			for _, h := range heading.FindAllStringSubmatch(string(page), -1) {
				anchors = append(anchors, strings.ReplaceAll(regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
			}
			if !slices.Contains(anchors, m[2]) {
				t.Errorf("%s sends to %s, which has no such section", file, m[0])
			}
		}
	}
	if sent == 0 {
		t.Error("the chart names no page; has the notation changed?")
	}
}

// pages are the pages that people read first.
func pages(t *testing.T) []string {
	t.Helper()
	docs, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(docs) == 0 {
		t.Fatalf("there are no pages: %v", err)
	}
	return append(docs, "../../README.md", "../../charts/lanyard/README.md")
}

// flags are the --set arguments of a command as the shell would give them to helm.
func flags(command string) (args []string) {
	command, _, _ = strings.Cut(command, "   #")
	words := strings.Fields(strings.NewReplacer("\\\n", " ", "'", "").Replace(command))
	for i, w := range words {
		if (w == "--set" || w == "--set-json") && i+1 < len(words) {
			args = append(args, w, words[i+1])
		}
	}
	return args
}
