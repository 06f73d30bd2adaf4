package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/lanyard-k8s/lanyard/mutate/violation"
)

// advice says, for every reason, what the person who wrote the object can do.
func advice() map[violation.Reason]string {
	return map[violation.Reason]string{
		violation.ReservedEnv:       "Remove the entry. A job's identity comes from its projected token.",
		violation.DuplicateEnv:      "Remove all of them; the platform writes its own.",
		violation.EnvFromPrefix:     "Use another prefix, or name the keys one by one under `env`.",
		violation.EnvFromOpen:       "Name the keys one by one under `env`.",
		violation.LookAlike:         "Use a name that cannot be mistaken for the platform's.",
		violation.Endpoint:          "Remove the entry; the platform sets where a job finds it.",
		violation.VolumeConflict:    "Give your volume another name.",
		violation.MountConflict:     "Remove the mount. To give a container the token, name it in `lanyard.dev/containers`.",
		violation.PathConflict:      "Mount the volume elsewhere. `/run` and `/var/run` themselves are allowed.",
		violation.AudienceForbidden: "Remove the projected token; pods that are entitled to one get it from the platform.",
		violation.NotInjected:       "Create the pod with its role label from the start. If it had it, tell the platform team: the webhook was not asked, or another one removed the volume.",
		violation.Metadata:          "Correct the value, or remove what only the platform writes.",
		violation.Windows:           "Run the pod on Linux, or opt out with label `lanyard.dev/role: none`.",
	}
}

// reasonsPage explains every reason: its meaning is the constant's comment.
func reasonsPage(root string) ([]byte, error) {
	meanings, err := constantComments(filepath.Join(root, "mutate/violation/violation.go"), "Reason")
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString("# Reasons\n\n" + mark + "\n\n## Why the webhook refuses an object\n\nThe text is the label `reason` of " +
		"`lanyard_admission_violations_total` and stands in the audit annotation `reasons`. \"Loosened\" reasons let the object " +
		"through with a warning while `admission.mode` is `audit`. See [admission.md](../admission.md) for the rules.\n\n")
	b.WriteString(row("reason", "meaning", "loosened", "what to do") + row("---", "---", "---", "---"))
	for _, r := range violation.Reasons() {
		if meanings[string(r)] == "" || advice()[r] == "" {
			return nil, fmt.Errorf("reason %s has no comment or no advice", r)
		}
		loosened := "no"
		if r.Loosened() {
			loosened = "yes"
		}
		b.WriteString(row("`"+string(r)+"`", cell(meanings[string(r)]), loosened, cell(advice()[r])))
	}
	more, err := connectorReasons(root)
	if err != nil {
		return nil, err
	}
	b.Write(more)
	if more, err = exchangeReasons(root); err != nil {
		return nil, err
	}
	b.Write(more)
	return []byte(b.String()), nil
}

// named is what a comment begins with: the constant's name, or two names if it speaks of the next one, too.
var named = regexp.MustCompile(`^[A-Z]\w*( and [A-Z]\w*)?:`)

// constantComments reads the comments of a type's constants, without the leading "Name:".
func constantComments(file, typeName string) (map[string]string, error) {
	syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("read constants: %w", err)
	}
	found := map[string]string{}
	var last string
	ast.Inspect(syntax, func(n ast.Node) bool {
		s, ok := n.(*ast.ValueSpec)
		if !ok || len(s.Values) != 1 {
			return true
		}
		id, ok := s.Type.(*ast.Ident)
		lit, isLit := s.Values[0].(*ast.BasicLit)
		if ok && isLit && id.Name == typeName {
			text, _ := strconv.Unquote(lit.Value)
			doc := s.Doc.Text()
			if doc == "" && strings.Contains(named.FindString(last), " and "+s.Names[0].Name+":") {
				doc = last
			}
			if last = doc; doc == "" {
				doc = s.Comment.Text() // at the end of the line
			}
			found[text] = sentence(named.ReplaceAllString(doc, ""))
		}
		return true
	})
	return found, nil
}
