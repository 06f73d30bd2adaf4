package policy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A YAML writer for trees of maps, lists and strings. A library would choose the quotes by the text it sees, and a Helm
// action inside quotes breaks as soon as its value holds one; here every text with an action, and every longer text, is a
// literal block, where nothing needs escaping.

// plain are the strings that YAML reads back as themselves without quotes.
var plain = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9./-]*$`)

// writeMap writes a mapping at an indentation, its first line included.
func writeMap(b *strings.Builder, m map[string]any, indent int) {
	for i, key := range keys(m) {
		if i > 0 || indent == 0 {
			b.WriteString(strings.Repeat(" ", indent))
		}
		if !plain.MatchString(key) {
			key = strconv.Quote(key)
		}
		b.WriteString(key + ":")
		writeValue(b, m[unquote(key)], indent, false)
	}
}

// keys sorts a mapping's keys, those that say what an object is first.
func keys(m map[string]any) []string {
	first := []string{"apiVersion", "kind", "metadata", "name"}
	all := slices.Sorted(maps.Keys(m))
	rest := slices.DeleteFunc(slices.Clone(all), func(k string) bool { return slices.Contains(first, k) })
	return append(slices.DeleteFunc(first, func(k string) bool { return !slices.Contains(all, k) }), rest...)
}

func unquote(key string) string {
	if s, err := strconv.Unquote(key); err == nil {
		return s
	}
	return key
}

// writeValue writes what follows "key:" or "-" up to and including the line's end.
func writeValue(b *strings.Builder, v any, indent int, inList bool) {
	switch v := v.(type) {
	case map[string]any:
		writeMapping(b, v, indent+2, inList)
	case []any:
		writeList(b, v, indent)
	case string:
		writeString(b, v, indent+2)
	default:
		fmt.Fprintf(b, " %v\n", v)
	}
}

func writeMapping(b *strings.Builder, m map[string]any, indent int, inList bool) {
	switch {
	case len(m) == 0:
		b.WriteString(" {}\n")
	case inList:
		b.WriteString(" ")
		writeMap(b, m, indent)
	default:
		b.WriteString("\n" + strings.Repeat(" ", indent))
		writeMap(b, m, indent)
	}
}

func writeList(b *strings.Builder, l []any, indent int) {
	if action, ok := onlyLeaf(l); ok {
		b.WriteString(" " + action + "\n")
		return
	}
	b.WriteString("\n")
	for _, item := range l {
		b.WriteString(strings.Repeat(" ", indent) + "-")
		writeValue(b, item, indent, true)
	}
}

// onlyLeaf finds the Helm action that stands for a whole list.
func onlyLeaf(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, strings.HasPrefix(v, "{{")
	case []any:
		if len(v) == 1 {
			return onlyLeaf(v[0])
		}
	case map[string]any:
		for _, inner := range v {
			if len(v) == 1 {
				return onlyLeaf(inner)
			}
		}
	}
	return "", false
}

func writeString(b *strings.Builder, s string, indent int) {
	switch {
	case strings.Contains(s, "{{") || strings.Contains(s, "\n") || len(s) > 60:
		pad := strings.Repeat(" ", indent)
		b.WriteString(" |-\n" + pad + strings.ReplaceAll(s, "\n", "\n"+pad) + "\n")
	case plain.MatchString(s):
		b.WriteString(" " + s + "\n")
	default:
		b.WriteString(" " + strconv.Quote(s) + "\n")
	}
}
