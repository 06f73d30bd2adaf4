package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The chart's README between these lines is the table of its values, made of values.yaml and its comments.
const (
	chartReadme = "charts/lanyard/README.md"
	chartValues = "charts/lanyard/values.yaml"
	valuesBegin = "<!-- values: made by `make generate` from values.yaml -->\n"
	valuesEnd   = "<!-- end of values -->\n"
)

// defaultMost is how long a default may be before the table refers to values.yaml.
const defaultMost = 120

// value is a key of values.yaml, with the comment above it.
type value struct {
	path    string // jobs.caConfigMap.name
	says    string
	section bool   // it has keys of its own, which are described one by one
	unset   string // of a key that stands there commented out: what an example gives it
}

// freshChartReadme gives the chart's README with its table made anew.
func freshChartReadme(root string) ([]byte, error) {
	old, err := os.ReadFile(filepath.Join(root, chartReadme))
	if err != nil {
		return nil, fmt.Errorf("read the chart's README: %w", err)
	}
	before, rest, ok := strings.Cut(string(old), valuesBegin)
	_, after, ok2 := strings.Cut(rest, valuesEnd)
	if !ok || !ok2 {
		return nil, errors.New("the chart's README has no place for the table of values")
	}
	raw, err := os.ReadFile(filepath.Join(root, chartValues))
	if err != nil {
		return nil, fmt.Errorf("read the chart's values: %w", err)
	}
	table, err := valuesTable(raw)
	if err != nil {
		return nil, err
	}
	return []byte(before + valuesBegin + table + valuesEnd + after), nil
}

// valuesTable is one table for each top-level key.
func valuesTable(raw []byte) (string, error) {
	var defaults map[string]any
	if err := yaml.Unmarshal(raw, &defaults); err != nil {
		return "", fmt.Errorf("read the chart's values: %w", err)
	}
	var b strings.Builder
	for _, v := range valuesOf(string(raw), defaults) {
		top := !strings.Contains(v.path, ".")
		if top {
			fmt.Fprintf(&b, "\n### %s\n\n", v.path)
			if v.section && v.says != "" {
				b.WriteString(plain(v.says) + "\n\n")
			}
			b.WriteString(row("value", "default", "meaning") + row("---", "---", "---"))
		}
		if top && v.section || v.section && v.says == "" {
			continue
		}
		b.WriteString(row("`"+v.path+"`", defaultOf(v, defaults), cell(plain(v.says))))
	}
	b.WriteString("\n")
	return b.String(), nil
}

// plain keeps what looks like a tag from being one.
func plain(s string) string { return strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(s) }

func defaultOf(v value, defaults map[string]any) string {
	switch {
	case v.section:
		return ""
	case v.unset != "":
		return "not set, e.g. `" + v.unset + "`"
	}
	text, err := json.Marshal(at(defaults, v.path))
	if err != nil || len(text) > defaultMost {
		return "see values.yaml"
	}
	return "`" + string(text) + "`"
}

// at finds what stands under a path.
func at(values map[string]any, path string) any {
	key, rest, deeper := strings.Cut(path, ".")
	inner, ok := values[key].(map[string]any)
	if !deeper || !ok {
		return values[key]
	}
	return at(inner, rest)
}

var (
	keyLine     = regexp.MustCompile(`^( *)([A-Za-z][A-Za-z0-9]*):(?: (.*))?$`)
	commentLine = regexp.MustCompile(`^( *)# ?(.*)$`)
	// unsetLine is a key in a comment: its value is one word, or a list or mapping on one line, and a remark may follow.
	unsetLine = regexp.MustCompile(`^([a-z][A-Za-z0-9]*): (\[[^\]]*\]|\{[^}]*\}|\S+)(?: +# (.*))?$`)
)

// valuesOf reads keys and comments line by line, since a comment belongs to the key below it.
func valuesOf(text string, defaults map[string]any) []value {
	var all []value
	var parents []string // by depth; values.yaml is indented by two
	var says []string
	example, list := false, -1 // within an example of a comment; the indentation of the list that is being passed over
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if list >= 0 && (strings.HasPrefix(strings.TrimSpace(line), "- ") || indent > list) {
			continue
		}
		list = -1
		if m := commentLine.FindStringSubmatch(line); m != nil {
			if u := unsetLine.FindStringSubmatch(m[2]); u != nil && !example {
				all = append(all, value{path: pathOf(parents, indent, u[1]), says: joined(append(says, u[3])), unset: u[2]})
				says = nil
				continue
			}
			if example = strings.HasPrefix(m[2], "  ") || example && m[2] == ""; example {
				says = elsewhere(says)
				continue
			}
			says = append(says, m[2])
			continue
		}
		m := keyLine.FindStringSubmatch(line)
		if m == nil { // an empty line
			says, example = nil, false
			continue
		}
		path := pathOf(parents, indent, m[2])
		_, isMap := at(defaults, path).(map[string]any)
		section := m[3] == "" && isMap
		if m[3] == "" && !isMap {
			list = indent
		}
		all = append(all, value{path: path, says: joined(says), section: section})
		says, example = nil, false
		parents = append(parents[:indent/2:indent/2], m[2])
	}
	return all
}

func pathOf(parents []string, indent int, key string) string {
	return strings.Join(append(parents[:indent/2:indent/2], key), ".")
}

func joined(lines []string) string { return strings.TrimSpace(strings.Join(lines, " ")) }

// elsewhere ends a comment that goes on with an example.
func elsewhere(says []string) []string {
	text := joined(says)
	if before, ok := strings.CutSuffix(text, ":"); ok {
		text = before + ": see values.yaml."
	}
	return []string{text}
}

func writeChartReadme(root string) error {
	text, err := freshChartReadme(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, chartReadme), text, 0o644)
}
