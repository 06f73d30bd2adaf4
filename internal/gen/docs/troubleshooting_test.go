package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// others are words that Kubernetes, Helm and Go's own libraries say, which docs/troubleshooting.md quotes too.
func others() []string {
	return []string{
		"connection refused", "context deadline exceeded", "violates PodSecurity", "certificate signed by unknown authority",
		"no such file or directory", "remote error: tls: bad certificate", "x509: certificate is valid for", "no matches for kind",
		"values don't meet the specifications of the schema", "additional properties", "another operation (install/upgrade/rollback) is in progress",
		"chart requires kubeVersion", "UPGRADE FAILED", "in version", "namespaces \"team-a\" not found", "secret \"lanyard-webhook-tls\" not found",
		"configmap \"lanyard-ca\" not found", "failed calling webhook", "job lanyard-uninstall failed: DeadlineExceeded", "has no deployed releases", "read only connection",
		"nil pointer evaluating interface {}", "insufficient quota to match these scopes",
	}
}

// TestTroubleshootingQuotesTheCode looks for what the first column of each table quotes among what the programs, policies and the
// chart say. A text that was reworded is found here.
func TestTroubleshootingQuotesTheCode(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs/troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	said := spoken(t)
	quotes := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) < 2 {
			continue
		}
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[0], -1) {
			if strings.Contains(m[1], " ") {
				quotes++
				for _, piece := range pieces(m[1]) {
					if !strings.Contains(said, piece) {
						t.Errorf("docs/troubleshooting.md quotes %q, which nothing says", piece)
					}
				}
			}
		}
	}
	if quotes < 80 {
		t.Errorf("%d quotes were found, want 80 at least; have the tables changed?", quotes)
	}
}

// differs matches what is another word in another case: dots, names in quotes, numbers, paths, variables, reasons, and what the
// examples call things.
func differs() *regexp.Regexp {
	return regexp.MustCompile(`\.\.\.|"[^"]*"|\b[0-9]+s?\b|\S*/\S*|: |\b[A-Z]+_[A-Z_]+\b|\([a-z_]+\)|\(limits\.[A-Za-z]+\)|\bJob x\b|\bSECTION\b|\b(CronJob|alice|exec|job)\b`)
}

// pieces are what stands between the words that differ from case to case: names in quotes, numbers, what dots leave out.
func pieces(quote string) []string {
	var found []string
	for _, piece := range differs().Split(quote, -1) {
		if piece = strings.Trim(piece, " :;,"); len(piece) >= 8 {
			found = append(found, piece)
		}
	}
	return found
}

// spoken is every literal of the code, of the policies and of the chart, with joined strings in one.
func spoken(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, other := range others() {
		b.WriteString(other + "\n")
	}
	for _, dir := range []string{"api", "mutate", "policy", "webhook", "connector", "exchange", "delegation", "client", "certs", "cmd", "internal", "doctor", "charts"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || strings.HasSuffix(path, "_test.go") || !regexp.MustCompile(`\.(go|tpl|yaml|json)$`).MatchString(path) {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			joined := regexp.MustCompile(`" \+\s*"`).ReplaceAllString(string(text), "")
			b.WriteString(strings.NewReplacer(`\"`, `"`, "` + \"", "", "''", "'", "`", "").Replace(joined) + "\n")
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}
