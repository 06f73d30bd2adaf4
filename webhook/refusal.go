package webhook

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
)

// maxViolations is how many a person is told of at once. Warnings are bounded where they are written, in room mutate.
const maxViolations = 25

// refuse is the one place where violations become an answer: 403 Forbidden with every violation, sorted, in the words of a
// field.ErrorList, the first 25 of them spelled out in message and details alike.
func refuse(d *mutate.Decision, docsURL string) *status {
	vs := slices.Clone(d.Violations)
	violation.Sort(vs)
	more := max(0, len(vs)-maxViolations)
	vs = vs[:len(vs)-more]
	more += d.More
	s := &status{code: http.StatusForbidden, reason: reasonFor(http.StatusForbidden)}
	texts := make([]string, 0, len(vs)+1)
	for _, v := range vs {
		e := fieldError(v)
		texts = append(texts, e.Error())
		s.causes = append(s.causes, cause{reason: string(e.Type), message: e.ErrorBody(), field: e.Field})
	}
	if more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	s.message = strings.Join(texts, ", ")
	if len(texts) > 1 {
		s.message = "[" + s.message + "]"
	}
	if len(texts) == 0 {
		// A denial without a violation is a fault of ours; the API server would print an empty sentence.
		s.message = "refused by Lanyard's rules"
	}
	if docsURL != "" {
		s.message += "; see " + docsURL
	}
	return s
}

// fieldError picks the type that says what to do: add what is required, take away what is forbidden. The types that print
// a value are never used.
func fieldError(v violation.Violation) *field.Error {
	kind := field.ErrorTypeForbidden
	if v.Reason == violation.NotInjected || v.Reason == violation.EnvFromOpen {
		kind = field.ErrorTypeRequired
	}
	return &field.Error{Type: kind, Field: v.Field, Detail: v.Message, BadValue: ""}
}

// clip cuts s to n characters, the last three being dots then, and replaces control characters.
func clip(s string, n int) string {
	s = s[:min(len(s), utf8.UTFMax*(n+1))] // whose runes are more than n still, and the last, if it is broken, is cut
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-3]) + "..."
}
