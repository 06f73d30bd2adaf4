package jobspec

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/lanyard-k8s/lanyard/mutate/reserved"
)

// What a request may hold at most. The kernel refuses an argument or a variable beyond 128 KiB; these stay clear of that.
const (
	MaxEnv         = 512
	MaxArgs        = 512
	MaxText        = 64 << 10  // one value or argument, in bytes
	MaxTotal       = 256 << 10 // all of them
	maxEnvName     = 256
	maxImage       = 512
	minMemory      = 6 << 20 // Docker's own
	minMilliCPU    = 10      // Docker's own
	namePattern    = `[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?`
	envNamePattern = `[A-Za-z_][A-Za-z0-9_.-]*`
)

// Validate finds every fault of a request, by field. An empty list means that it may run, if its image is there.
func Validate(s Spec, l Limits) field.ErrorList {
	name := regexp.MustCompile(`^` + namePattern + `$`)
	var found field.ErrorList
	for _, n := range []struct{ field, value string }{{"workspace", s.Workspace}, {"job", s.Job}, {"task", s.Task}} {
		switch {
		case n.value == "":
			found = append(found, field.Required(field.NewPath(n.field), "name it"))
		case !name.MatchString(n.value):
			found = append(found, field.Invalid(field.NewPath(n.field), short(n.value),
				"must be 1 to 63 lower-case letters, digits and hyphens, with a letter or digit at both ends"))
		}
	}
	found = append(found, image(s.Image)...)
	found = append(found, environment(s.Env)...)
	found = append(found, command(s.Command)...)
	if s.size() > MaxTotal {
		found = append(found, field.TooLong(field.NewPath("env"), "", MaxTotal))
	}
	found = append(found, amount("cpu", s.CPU, l.MaxCPU, *resource.NewMilliQuantity(minMilliCPU, resource.DecimalSI))...)
	return append(found, amount("memory", s.Memory, l.MaxMemory, *resource.NewQuantity(minMemory, resource.BinarySI))...)
}

// size is how long all texts are together that a request may hold many of.
func (s Spec) size() int {
	total := 0
	for _, e := range s.Env {
		total += len(e.Name) + len(e.Value)
	}
	for _, a := range s.Command {
		total += len(a)
	}
	return total
}

// TooMuch says whether a request holds more than any may: it need not be kept until it is its turn to be refused.
func (s Spec) TooMuch() bool {
	return len(s.Env) > MaxEnv || len(s.Command) > MaxArgs || s.size() > MaxTotal
}

// image finds what no image is called.
func image(s string) field.ErrorList {
	path := field.NewPath("image")
	switch {
	case s == "":
		return field.ErrorList{field.Required(path, "say which image to run")}
	case len(s) > maxImage:
		return field.ErrorList{field.TooLong(path, "", maxImage)}
	}
	if _, err := reference.ParseAnyReference(s); err != nil {
		return field.ErrorList{field.Invalid(path, short(s), "must be name[:tag], name@digest or an image's id")}
	}
	return nil
}

// environment finds names that are the platform's, whatever their value, and what Docker or the kernel would take for
// something else. Values are never repeated: they may be secret.
func environment(env []EnvVar) field.ErrorList {
	var found field.ErrorList
	if len(env) > MaxEnv {
		return field.ErrorList{field.TooMany(field.NewPath("env"), len(env), MaxEnv)}
	}
	valid, seen := regexp.MustCompile(`^`+envNamePattern+`$`), make(map[string]bool, len(env))
	for i, e := range env {
		at := field.NewPath("env").Index(i)
		name := at.Child("name")
		alike, looksReserved := reserved.LookAlike(e.Name)
		switch {
		case e.Name == "":
			found = append(found, field.Required(name, "name the variable"))
		case reserved.Reserved(e.Name), reserved.Endpoint(e.Name):
			found = append(found, field.Forbidden(name, fmt.Sprintf("%q is set by the platform and may not be set by a job; remove it", short(e.Name))))
		case looksReserved:
			found = append(found, field.Forbidden(name, fmt.Sprintf("%s reads like %s, which is set by the platform; rename or remove it", ascii(e.Name), alike)))
		case len(e.Name) > maxEnvName:
			found = append(found, field.TooLong(name, "", maxEnvName))
		case !valid.MatchString(e.Name):
			found = append(found, field.Invalid(name, ascii(e.Name), "must be letters, digits and _ . - and not begin with a digit"))
		case seen[e.Name]:
			found = append(found, field.Duplicate(name, e.Name))
		}
		seen[e.Name] = true
		found = append(found, text(at.Child("value"), e.Value)...)
	}
	return found
}

// command finds arguments that no process can be given.
func command(args []string) field.ErrorList {
	path := field.NewPath("command")
	if len(args) > MaxArgs {
		return field.ErrorList{field.TooMany(path, len(args), MaxArgs)}
	}
	var found field.ErrorList
	for i, a := range args {
		found = append(found, text(path.Index(i), a)...)
	}
	return found
}

// text finds what is too long or no text. It says nothing of what the text is.
func text(path *field.Path, s string) field.ErrorList {
	switch {
	case len(s) > MaxText:
		return field.ErrorList{field.TooLong(path, "", MaxText)}
	case strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s):
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "must be UTF-8 without zero bytes")}
	default:
		return nil
	}
}

// amount finds an amount that is below what Docker takes or above what the platform allows.
func amount(name string, q, most, least resource.Quantity) field.ErrorList {
	path := field.NewPath(name)
	switch {
	case q.IsZero():
		return nil
	case q.Cmp(least) < 0:
		return field.ErrorList{field.Invalid(path, q.String(), "must be at least "+least.String())}
	case !most.IsZero() && q.Cmp(most) > 0:
		return field.ErrorList{field.Invalid(path, q.String(), "must be at most "+most.String()+", which is the platform's limit")}
	default:
		return nil
	}
}

// Names is what a job is called in one word, for people and messages.
func (s Spec) Names() string { return strings.Join([]string{s.Workspace, s.Job, s.Task}, "/") }

// Overrides are variables of an image that a container must not start with, each of which is set to nothing then: those that
// the platform owns, by their names or by what they look like, but for the ones that it sets itself.
func Overrides(imageEnv, own []string) []string {
	var names []string
	for _, entry := range imageEnv {
		name, _, _ := strings.Cut(entry, "=")
		_, alike := reserved.LookAlike(name)
		if (reserved.Reserved(name) || reserved.Endpoint(name) || alike) && !slices.Contains(own, name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// short cuts a text for a message.
func short(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "..."
	}
	return s
}

// ascii spells a name so that what does not show is seen.
func ascii(s string) string { return fmt.Sprintf("%+q", short(s)) }
