package conditions

import (
	"slices"
	"strconv"
	"strings"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
)

// Entity is a part of a node that a fault is about. Its strings are escaped.
type Entity struct {
	Type, Value string
}

func (e Entity) String() string { return e.Type + ":" + e.Value }

// Entry is one fault. Its strings are escaped, so that String and Parse are each other's reverse.
type Entry struct {
	Codes    []string
	Entities []Entity
	Text     string
	Action   string
}

// entryOf is the fault that an event reports, or what a healthy event clears.
func entryOf(e *healtheventv1.HealthEvent) Entry {
	var out Entry
	for _, c := range e.GetErrorCode() {
		if c = token(c, ""); c != "" && !slices.Contains(out.Codes, c) {
			out.Codes = append(out.Codes, c)
		}
	}
	for _, x := range e.GetEntitiesImpacted() {
		entity := Entity{Type: entityType(x.GetEntityType()), Value: token(x.GetEntityValue(), "")}
		if !slices.Contains(out.Entities, entity) {
			out.Entities = append(out.Entities, entity)
		}
	}
	out.Text = text(e.GetMessage())
	out.Action = actionOf(e)
	return out.fit()
}

// actionOf is the action's name, a custom one's own, or the number of one that has no name here.
func actionOf(e *healtheventv1.HealthEvent) string {
	if e.GetRecommendedAction() == healtheventv1.RecommendedAction_CUSTOM {
		if own := token(e.GetCustomRecommendedAction(), ""); own != "" {
			return own
		}
	}
	return token(e.GetRecommendedAction().String(), "")
}

// fit bounds an entry. The lists are cut by themselves, whatever else the entry holds, so that the healthy event that names
// what the fault named is cut alike and clears it; the text gets what room they leave.
func (e Entry) fit() Entry {
	e.Codes = within(e.Codes, codesMost, func(c string) int { return len(codePrefix) + len(c) + 1 })
	e.Entities = within(e.Entities, entitiesMost, func(x Entity) int { return len(x.String()) + 1 })
	if over := len(e.String()) - entryMost; over > 0 {
		e.Text = text(cut(e.Text, max(0, len(e.Text)-over-len(plainPrefix))))
	}
	return e
}

// within is as much of a list as fits, and its first at least.
func within[T any](list []T, most int, size func(T) int) []T {
	used := 0
	for i, x := range list {
		if used += size(x); used > most && i > 0 {
			return list[:i]
		}
	}
	return list
}

// String is the entry as it stands in a message.
func (e Entry) String() string {
	var words []string
	for _, c := range e.Codes {
		words = append(words, codePrefix+c)
	}
	for _, x := range e.Entities {
		words = append(words, x.String())
	}
	if e.Text != "" {
		words = append(words, e.Text)
	}
	if e.Action != "" {
		words = append(words, actionWord+e.Action)
	}
	return strings.Join(words, " ")
}

// readEntry reads what String wrote. What somebody else wrote becomes a text.
func readEntry(s string) Entry {
	var e Entry
	head := s
	if at := strings.LastIndex(s, actionWord); at >= 0 && !strings.Contains(s[at+len(actionWord):], " ") {
		head, e.Action = strings.TrimRight(s[:at], " "), token(unhexed(s[at+len(actionWord):]), "")
	}
	for head != "" {
		word, rest, _ := strings.Cut(head, " ")
		typ, value, isPair := strings.Cut(word, ":")
		if !isPair {
			break
		}
		head = rest
		if typ+":" == codePrefix {
			e.Codes = append(e.Codes, token(unhexed(value), ""))
			continue
		}
		e.Entities = append(e.Entities, Entity{Type: entityType(unhexed(typ)), Value: token(unhexed(value), "")})
	}
	e.Text = text(head)
	return e.fit()
}

// unhexed undoes hexed, so that a word that was escaped can be escaped again without growing.
func unhexed(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				out.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// same says whether two entries are about one fault: the same codes and entities. A fault without either is known by its text.
func (e Entry) same(o Entry) bool {
	if !sameSet(e.Codes, o.Codes) || !sameSet(e.Entities, o.Entities) {
		return false
	}
	return len(e.Codes)+len(e.Entities) > 0 || e.Text == o.Text
}

// clearedBy says whether a healthy event that names entities clears the fault: the fault names all of them, and one of
// the event's codes if it has any.
func (e Entry) clearedBy(healthy Entry) bool {
	for _, x := range healthy.Entities {
		if !slices.Contains(e.Entities, x) {
			return false
		}
	}
	if len(healthy.Codes) == 0 {
		return true
	}
	return slices.ContainsFunc(healthy.Codes, func(c string) bool { return slices.Contains(e.Codes, c) })
}

func sameSet[T comparable](a, b []T) bool {
	subset := func(a, b []T) bool {
		return !slices.ContainsFunc(a, func(x T) bool { return !slices.Contains(b, x) })
	}
	return subset(a, b) && subset(b, a)
}
