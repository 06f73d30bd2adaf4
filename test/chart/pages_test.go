//go:build unix

package chart

import (
	"os"
	"path/filepath"
	"regexp"
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
// takes them back. So a page that gives a file says before where it comes from; the others reuse the release's.
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
			if !strings.Contains(command, "--reuse-values") && !(strings.Contains(command, "-f values.yaml") && strings.Contains(before, "helm get values lanyard --namespace lanyard -o yaml > values.yaml")) {
				t.Errorf("%s: helm upgrade %s would lose the values of the install", page, command)
			}
		}
	}
	if upgrades < 3 {
		t.Errorf("found %d upgrades; the pages have three", upgrades)
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
