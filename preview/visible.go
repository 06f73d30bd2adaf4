package preview

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
	plain "sigs.k8s.io/yaml"
)

// visible renders JSON as YAML that holds nothing that steers a terminal or turns a text's direction around: what a person reads is what
// there is. Such a character can be escaped in double quotes alone, so that scalars which hold one are quoted.
func visible(object []byte) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(escaped(object), &doc); err != nil { // JSON is YAML; unescaped some of these would end a line
		return nil, err
	}
	restyle(&doc)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	enc.CompactSeqIndent()
	if err := enc.Encode(&doc); err != nil {
		return nil, err
	}
	return escaped(out.Bytes()), nil
}

// restyle takes JSON's braces away, and its quotes where a word means itself without, and sorts keys.
func restyle(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode || means(n.Value) {
		n.Style = 0
	}
	if n.Kind == yaml.MappingNode {
		var pairs [][]*yaml.Node
		for pair := range slices.Chunk(n.Content, 2) {
			pairs = append(pairs, pair)
		}
		slices.SortStableFunc(pairs, func(a, b []*yaml.Node) int { return strings.Compare(a[0].Value, b[0].Value) })
		n.Content = slices.Concat(pairs...)
	}
	for _, c := range n.Content {
		restyle(c)
	}
}

// means says whether a word means itself unquoted, as the other renderings write it: not yes, nor 1, nor what holds a hidden character.
func means(word string) bool {
	text, err := plain.Marshal(word)
	return err == nil && string(text) == word+"\n" && !strings.ContainsFunc(word, hidden)
}

// escaped escapes hidden characters as YAML does in double quotes, where all of them must stand.
func escaped(text []byte) []byte {
	out := make([]byte, 0, len(text)+32)
	for _, r := range string(text) {
		switch {
		case !hidden(r):
			out = append(out, string(r)...)
		case r <= 0xffff:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = fmt.Appendf(out, `\U%08x`, r)
		}
	}
	return out
}

// hidden are the characters that the other outputs escape, too: controls, marks of format and direction, and other ends of lines.
func hidden(r rune) bool {
	return r >= 0x7f && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}
