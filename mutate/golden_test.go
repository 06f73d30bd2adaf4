package mutate_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/lanyard-k8s/lanyard/mutate"
)

var update = flag.Bool("update", false, "write the golden files anew")

// goldens says what each file in testdata shows. A file holds the sections rules (words that change testRules), request,
// object, and old for an update; decision, patch and patched are written by -update.
var goldens = map[string]string{
	"job":              "a job's pod gets the token, the base URL, the CA, its stamp and its marks",
	"bare-null":        "a bare pod whose parents are null, empty or absent gets them created",
	"containers":       "init containers, native sidecars, skipped containers and envFrom each get what is theirs",
	"allow-list":       "only the containers on the author's list get the token, an ordinary init container among them",
	"first-list":       "a container that came after the first look gets no token",
	"deployment":       "a deployment's pod in a managed namespace gets its stamp and empty entries only",
	"role-none":        "a helper gets its stamp and empty entries only",
	"mirror":           "a static pod's mirror gets its stamp and nothing else",
	"publisher":        "a labelled publisher gets its token",
	"publisher-ca":     "with the deployment role a publisher gets the CA too",
	"listed":           "a listed publisher gets its token without a label, in mounts that were null",
	"listed-not":       "an account that is not on the list gets nothing",
	"monitor":          "a monitor whose own chart mounts the token keeps it; only label and list are added",
	"both-job-second":  "a job's pod that is a publisher already grows its label",
	"clamped":          "a lifetime beyond the maximum is clamped, and a long grace period warned of",
	"cross-node":       "a publisher that may name any node and runs anywhere is warned of",
	"endpoints":        "another base URL and look-alikes are warned of and left alone",
	"endpoints-strict": "another base URL and look-alikes are refused where the rules say so",
	"refused":          "every fault is told at once, with its place and its remedy",
	"audit":            "mode audit lets names through and closes envFrom all the same",
	"audit-conflict":   "mode audit leaves a pod alone whose volume is in the way",
	"late-label":       "a label that came too late ends in a refusal that says so",
	"stripped":         "a pod that lost its mount to another webhook is refused with that hint",
	"never-seen":       "a job's pod that no webhook saw is refused with that hint",
	"debug":            "a debug container may not mount the token, set reserved names or leave envFrom open",
	"debug-legacy":     "a pod from before Lanyard stays debuggable",
	"template":         "a job is told what its pods would be refused for",
	"template-update":  "an update is held only to what it adds",
	"template-custom":  "a custom kind's templates are found, and the role left open",
	"stamp-create":     "a job bears its creator's stamp whatever the client wrote",
	"stamp-update":     "an update gets the old stamp back",
}

func TestGoldens(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		if goldens[name] == "" {
			t.Errorf("%s belongs to no test", file)
		}
	}
	for name, sentence := range goldens {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			golden(t, filepath.Join("testdata", name+".txtar"), sentence)
		})
	}
}

// golden runs one file and compares, or rewrites, what it came to.
func golden(t *testing.T, file, sentence string) {
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	in := map[string][]byte{}
	for _, f := range a.Files {
		in[f.Name] = f.Data
	}
	out := &txtar.Archive{Comment: []byte(sentence + "\n")}
	for _, name := range []string{"rules", "request", "object", "old"} {
		if data, ok := in[name]; ok {
			out.Files = append(out.Files, txtar.File{Name: name, Data: data})
		}
	}
	out.Files = append(out.Files, play(t, in)...)
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := txtar.Format(out)
	if *update && !bytes.Equal(got, want) {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs; run with -update if that is meant (-want +got):\n%s", file, diff)
	}
}

// play makes the call that a file asks for and returns the sections that record it.
func play(t *testing.T, in map[string][]byte) []txtar.File {
	t.Helper()
	rules := rulesFrom(t, string(in["rules"]))
	req, call := requestFrom(t, in)
	d, err := call(req, rules)
	if err != nil {
		t.Fatal(err)
	}
	files := []txtar.File{{Name: "decision", Data: written(d)}}
	if len(d.Patch) == 0 {
		return files
	}
	patched := apply(t, req.Object, d.Patch)
	again := req
	again.Object = patched
	if second, err := call(again, rules); err != nil || len(second.Patch) > 0 {
		t.Errorf("a second call patches again: %v, %v", second.Patch, err)
	}
	var ops, pretty bytes.Buffer
	for _, op := range d.Patch {
		fmt.Fprintf(&ops, "%s %s %s\n", op.Op, op.Path, op.Value)
	}
	if err := json.Indent(&pretty, patched, "", "  "); err != nil {
		t.Fatal(err)
	}
	pretty.WriteByte('\n')
	return append(files, txtar.File{Name: "patch", Data: ops.Bytes()}, txtar.File{Name: "patched", Data: pretty.Bytes()})
}

// written is a decision as text.
func written(d mutate.Decision) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "outcome: %s\nroles: %v\naudiences: %v\n", d.Outcome, d.Roles, d.Audiences)
	for _, v := range d.Violations {
		fmt.Fprintf(&b, "%s: %s: %s\n", v.Reason, v.Field, v.Message)
	}
	for _, w := range d.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	return b.Bytes()
}

// rulesFrom changes testRules by words.
func rulesFrom(t *testing.T, words string) mutate.Rules {
	t.Helper()
	r := testRules()
	for word := range strings.FieldsSeq(words) {
		switch word {
		case "audit":
			r.Mode = mutate.Audit
		case "strictNames":
			r.StrictNames = true
		case "protectEndpoints":
			r.ProtectEndpoints = true
		case "publisherCA":
			r.Publisher.CAConfigMap = r.Job.CAConfigMap
		default:
			t.Fatalf("unknown rule %q", word)
		}
	}
	if errs := r.Validate(); len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return r
}

// requestFrom reads a line such as "pod job CREATE": what to call, the entry, the operation; then key=value words.
func requestFrom(t *testing.T, in map[string][]byte) (mutate.Request, func(mutate.Request, mutate.Rules) (mutate.Decision, error)) {
	t.Helper()
	words := strings.Fields(string(in["request"]))
	calls := map[string]func(mutate.Request, mutate.Rules) (mutate.Decision, error){
		"pod": mutate.Pod, "verify": mutate.Verify, "template": mutate.Template, "stamp": mutate.Stamp,
	}
	if len(words) < 3 || calls[words[0]] == nil {
		t.Fatalf("request %q", in["request"])
	}
	req := jobRequest(in["object"])
	req.Entry, req.Operation, req.OldObject = mutate.Entry(words[1]), mutate.Operation(words[2]), in["old"]
	for _, word := range words[3:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "namespace":
			req.Namespace = value
		case "user":
			req.Username = value
		case "group":
			req.Groups = slices.Concat(req.Groups, []string{value})
		case "subresource":
			req.Subresource = value
		case "kind":
			req.Kind.Group, req.Kind.Kind, _ = strings.Cut(value, "/")
		default:
			t.Fatalf("unknown word %q", word)
		}
	}
	return req, calls[words[0]]
}
