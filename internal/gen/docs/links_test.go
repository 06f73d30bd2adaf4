package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestNoLinkLeadsNowhere follows the relative links of every page in the tree, and the pages of docs that code, chart and pages name.
func TestNoLinkLeadsNowhere(t *testing.T) {
	t.Parallel()
	pages, links := 0, 0
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := e.Name(); e.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "dist" || name == "testdata") {
			return filepath.SkipDir
		}
		switch filepath.Ext(path) {
		case ".md":
			pages++
		case ".go", ".yaml", ".tpl", ".txt", ".proto":
		default:
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || strings.HasSuffix(path, "_test.go") {
			return err
		}
		if filepath.Ext(path) == ".md" {
			for _, m := range regexp.MustCompile(`\]\(([^)#:\s]*)(#[^)\s]*)?\)`).FindAllStringSubmatch(prose(string(text)), -1) {
				links++
				target := path
				if m[1] != "" {
					target = filepath.Join(filepath.Dir(path), m[1])
				}
				if !leads(target, m[2]) {
					t.Errorf("%s: link %s%s leads nowhere", path, m[1], m[2])
				}
			}
		}
		for _, m := range regexp.MustCompile(`\bdocs/((?:[a-z0-9-]+/)*[A-Za-z0-9-]+\.md)(#[a-z0-9_-]+)?`).FindAllStringSubmatch(string(text), -1) {
			if !leads(filepath.Join(root, "docs", m[1]), m[2]) {
				t.Errorf("%s names docs/%s%s, which is not there", path, m[1], m[2])
			}
		}
		return nil
	})
	if err != nil || pages < 40 || links < 200 {
		t.Errorf("%d pages and %d links were found, %v; have they moved?", pages, links, err)
	}
}

// prose is a page without its blocks of code between fences.
func prose(text string) string {
	return regexp.MustCompile("(?ms)^ *```.*?^ *```").ReplaceAllString(text, "")
}

// leads says whether a file exists and, if it is asked for one, has the heading that an anchor means. Of headings with one text the
// second is "-1", and so on.
func leads(file, anchor string) bool {
	info, err := os.Stat(file)
	if err != nil || anchor == "" || info.IsDir() {
		return err == nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	seen := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(prose(string(text)), -1) {
		words := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		id := strings.ReplaceAll(words, " ", "-")
		n := seen[id]
		seen[id]++
		if n > 0 {
			id += "-" + strconv.Itoa(n)
		}
		if "#"+id == anchor {
			return true
		}
	}
	return false
}
