package exchange_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// checklist is what the standards ask of an exchange, by letter and number: RFC 6749 and 8693 (A to E), the verification of subject
// tokens and proofs (F, G), RFC 9068, 8725, 7638 and 8693 on what is issued (H), on verifying it (I), RFC 7517 and 8414 (J), RFC 9700
// and 8725 on the whole (K). Each line has its row: a subtest or a test that begins with its name. Where this exchange's own answer
// differs, the row says so.
func checklist() []string {
	return []string{
		"A1 POST only", "A2 a form and nothing else", "A3 with a charset", "A4 no query", "A5 no parameter twice", "A6 empty is absent",
		"A7 unknown parameters", "A8 malformed encoding", "A9 bounded input", "A10 TLS", "A11 zero bytes and bad UTF-8", "A12 slow bodies",
		"B1 no grant type", "B2 another grant", "B3 subject token and its type", "B4 types that are allowed", "B5 one verifier for each type",
		"B6 the type that is issued", "B7 types that are not", "B8 actor's halves", "B9 an actor", "B10 client authentication", "B11 client id",
		"C1 another audience", "C2 two audiences", "C3 no audience", "C4 resource", "C5 scopes narrow", "C6 scope syntax",
		"D1 members", "D2 no refresh token", "D3 nothing is cached", "D4 no ETag, cookie, CORS", "D5 expires_in",
		"E1 errors by condition", "E2 characters of descriptions", "E3 descriptions say little", "E4 one reason for each failure",
		"F1 no audience echoed", "F2 another echoed", "F3 the audience is asked for", "F4 not authenticated", "F5 the reviewer fails",
		"F6 usernames", "F7 pod UIDs", "F8 the key's spelling", "F9 no row", "F10 another account", "F11 refused by the API server",
		"F12 a finished pod", "F13 no review for garbage", "F14 one review for many", "F15 garbage harms nobody",
		"G1 format", "G2 no such row", "G3 another row's", "G4 another secret", "G5 a newline", "G6 spellings of base64", "G7 what is stored",
		"H1 header", "H2 claims", "H3 sub", "H4 act", "H5 depth", "H6 who acts", "H7 may_act", "H8 lifetime", "H9 jti", "H10 kid",
		"H11 signature", "H12 size",
		"I1 algorithms", "I2 types", "I3 headers that bring more", "I4 doubled claims", "I5 audiences", "I6 issuers", "I7 times", "I8 numbers",
		"I9 other tokens",
		"J1 public members", "J2 members of a key", "J3 caching", "J4 rotation", "J5 unknown kid", "J6 retention", "J7 one winner",
		"J8 places of the metadata", "J9 one issuer", "J10 metadata says what is not", "J11 revoked keys",
		"K1 least privilege", "K2 kinds of token exclude each other", "K3 claims route nothing", "K4 one algorithm for each key", "K5 explicit types",
	}
}

// TestTheChecklistIsWhole counts the rows: none is missing, none is of a line that the list does not have, and the lines are numbered
// without a gap.
func TestTheChecklistIsWhole(t *testing.T) {
	t.Parallel()
	line := regexp.MustCompile(`^([A-K])([0-9]+) `)
	want, last := map[string]bool{}, map[string]int{}
	for _, l := range checklist() {
		m := line.FindStringSubmatch(l)
		if m == nil {
			t.Fatalf("%q is no line", l)
		}
		n, err := strconv.Atoi(m[2])
		must(t, err)
		if n != last[m[1]]+1 {
			t.Errorf("%q comes after number %d", l, last[m[1]])
		}
		last[m[1]], want[m[1]+m[2]] = n, true
	}
	rows := map[string]int{}
	for _, dir := range []string{".", "keys", "../internal/mint", "../client/principal"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no tests in %s: %v", dir, err)
		}
		for _, file := range files {
			for _, name := range rowsOf(t, file) {
				rows[name]++
				if !want[name] {
					t.Errorf("%s has a row of %s, which is no line", file, name)
				}
			}
		}
	}
	for name := range want {
		if rows[name] == 0 {
			t.Errorf("%s has no row", name)
		}
	}
	if len(want) != 97 {
		t.Errorf("the list has %d lines, want 97", len(want))
	}
}

// rowsOf are the lines that a file has rows of: names of tests, and texts "A1: ..." that subtests are named by.
func rowsOf(t *testing.T, file string) []string {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	must(t, err)
	text, name := regexp.MustCompile(`^"([A-K][0-9]+): `), regexp.MustCompile(`^Test([A-K][0-9]+)+[A-Z]`)
	var rows []string
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if m := name.FindString(n.Name.Name); m != "" {
				rows = append(rows, regexp.MustCompile(`[A-K][0-9]+`).FindAllString(m, -1)...)
			}
		case *ast.KeyValueExpr: // a table's key
			rows = append(rows, literal(n.Key, text)...)
		case *ast.CallExpr: // t.Run
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Run" && len(n.Args) == 2 {
				rows = append(rows, literal(n.Args[0], text)...)
			}
		}
		return true
	})
	slices.Sort(rows)
	return slices.Compact(rows)
}

func literal(e ast.Expr, text *regexp.Regexp) []string {
	l, ok := e.(*ast.BasicLit)
	if !ok {
		return nil
	}
	if m := text.FindStringSubmatch(l.Value); m != nil {
		return []string{fmt.Sprint(m[1])}
	}
	return nil
}
