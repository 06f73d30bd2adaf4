package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// handbook is every page of docs that is written by hand, and the README.
func handbook(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/examples/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range found {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			pages[strings.TrimPrefix(page, root+"/")] = strings.ReplaceAll(string(text), "\\\n", " ")
		}
	}
	if len(pages) < 15 {
		t.Fatalf("%d pages were found; have they moved?", len(pages))
	}
	return pages
}

// TestExamplesUseFlagsThatAre compares the flags of our programs in examples with what the programs say in docs/reference/commands.md.
func TestExamplesUseFlagsThatAre(t *testing.T) {
	t.Parallel()
	reference, err := os.ReadFile(filepath.Join(root, "docs/reference/commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string][]string{} // by command
	for _, section := range strings.Split(string(reference), "\n## ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		flags[name] = regexp.MustCompile(`--[a-z][a-z-]+`).FindAllString(text, -1)
	}
	checked := 0
	for page, text := range handbook(t) {
		for _, code := range regexp.MustCompile("(?m)^ {4,}.*$|`[^`\n]+`|^[A-Za-z./].*$").FindAllString(text, -1) {
			for _, command := range regexp.MustCompile(`\|\||&&|[|;&]| -- |<\(|\$\(`).Split(strings.Trim(code, " `"), -1) {
				words := strings.Fields(command)
				name, rest := ours(flags, words)
				for _, word := range rest {
					flag, _, _ := strings.Cut(strings.Trim(word, `'"),.`), "=")
					if name == "" || !strings.HasPrefix(flag, "--") {
						continue
					}
					checked++
					if !slices.Contains(flags[name], flag) {
						t.Errorf("%s: %q has no %s", page, name, flag)
					}
				}
			}
		}
	}
	if checked < 40 {
		t.Errorf("%d flags were checked, want 40 at least; have the examples changed?", checked)
	}
}

// ours is the longest command of ours that words begin with, behind variables and a path; the other words are its arguments.
func ours(flags map[string][]string, words []string) (name string, rest []string) {
	for len(words) > 0 && regexp.MustCompile(`^[A-Z_]+=`).MatchString(words[0]) {
		words = words[1:]
	}
	if len(words) == 0 {
		return "", nil
	}
	words = append([]string{filepath.Base(words[0])}, words[1:]...)
	for n := min(3, len(words)); n > 0; n-- {
		if command := strings.Join(words[:n], " "); flags[command] != nil {
			return command, words[n:]
		}
	}
	return "", nil
}

// TestValuesThatPagesNameAre looks for the chart's values in its schema.
func TestValuesThatPagesNameAre(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(root, "charts/lanyard/values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for page, text := range handbook(t) {
		for _, m := range regexp.MustCompile(`--set '?([A-Za-z.]+)=|`+"`"+`((?:exchange|connector|jobs|admission|webhook|certManager|certs|networkPolicy|monitoring|gateway|image|uninstallHook)(?:\.[A-Za-z]+)+)[:`+"`"+`]`).FindAllStringSubmatch(text, -1) {
			value := m[1] + m[2]
			if regexp.MustCompile(`\.(yaml|json|log|sock|service|md|internal)$`).MatchString(value) {
				continue
			}
			checked++
			if !defined(schema, schema, strings.Split(value, ".")) {
				t.Errorf("%s names the value %s, which the chart does not have", page, value)
			}
		}
	}
	if checked < 60 {
		t.Errorf("%d values were checked, want 60 at least; have the pages changed?", checked)
	}
}

// defined says whether a path of keys leads somewhere in a schema. Where any key is allowed, everything is.
func defined(whole, at map[string]any, keys []string) bool {
	if ref, ok := at["$ref"].(string); ok {
		at = whole
		for _, part := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
			at, _ = at[part].(map[string]any)
		}
	}
	if len(keys) == 0 {
		return true
	}
	properties, _ := at["properties"].(map[string]any)
	next, ok := properties[keys[0]].(map[string]any)
	if ok {
		return defined(whole, next, keys[1:])
	}
	return properties == nil || keys[0] == "global" || at["additionalProperties"] != false
}
