package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lanyard-k8s/lanyard/connector/config"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/exchange/settings"
)

// TestTheExamplesHaveEveryKey looks for the keys where the loaders name them: in calls on a section.
func TestTheExamplesHaveEveryKey(t *testing.T) {
	t.Parallel()
	for folder, example := range map[string][]byte{"webhook/settings": webhookYAML, "connector/config": connectorYAML, "exchange/settings": exchangeYAML} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			keys := keysOf(t, filepath.Join(root, folder))
			if len(keys) < 10 {
				t.Errorf("found %d keys in the loader; does it name them otherwise now?", len(keys))
			}
			for key, file := range keys {
				if !regexp.MustCompile(`(?m)^[ #-]*` + regexp.QuoteMeta(key) + `:`).Match(example) {
					t.Errorf("%s: key %q is missing from the example", file, key)
				}
			}
		})
	}
}

// keysOf are the keys that a loader reads, and the file that reads each.
func keysOf(t *testing.T, folder string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no loader: %v", err)
	}
	keys := map[string]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(syntax, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if key, ok := keyOf(call); ok {
					keys[key] = file
				}
			}
			return true
		})
	}
	return keys
}

// The calls that read a key: methods of a section, and a loader's own functions, which take the section before the key.
var (
	methods   = regexp.MustCompile(`^(Section|Sections|Enum|Bool|Text|String|Strings|Int|Required|Texts|accounts)$`)
	functions = regexp.MustCompile(`^(seconds|milliseconds|file|word|httpsURL|directory|quantity)$`)
)

func keyOf(call *ast.CallExpr) (string, bool) {
	at := -1
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		if methods.MatchString(f.Sel.Name) {
			at = 0
		}
	case *ast.Ident:
		if functions.MatchString(f.Name) {
			at = 1
		}
	}
	if at < 0 || at >= len(call.Args) {
		return "", false
	}
	lit, ok := call.Args[at].(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	key, err := strconv.Unquote(lit.Value)
	return key, err == nil
}

func TestTheConnectorsExampleIsTheDefaults(t *testing.T) {
	t.Parallel()
	want, err := config.ParseSettings([]byte("{}"), nodebinding.Socket)
	if err != nil {
		t.Fatal(err)
	}
	got, err := config.ParseSettings(connectorYAML, nodebinding.Socket)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func TestTheExchangesExampleIsTheDefaults(t *testing.T) {
	t.Parallel()
	want, err := settings.Parse([]byte("issuer: https://lanyard-exchange.lanyard.svc:8443\nkeys: {secret: lanyard/lanyard-exchange-keys}\n" +
		"store: {directory: /var/lib/lanyard/exchange}\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := settings.Parse(exchangeYAML)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

// TestTheDeploymentsDefaultsAreToldOf looks for each number that differs in the role deployment, in parentheses.
func TestTheDeploymentsDefaultsAreToldOf(t *testing.T) {
	t.Parallel()
	s, err := config.ParseSettings([]byte("{}"), nodebinding.Deployment)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int64{s.Review.Entries, s.Review.QPS, s.Review.Burst, s.Review.Concurrent, s.Limits.Connections, int64(s.Limits.ConnectionAge.Seconds())} {
		if !strings.Contains(string(connectorYAML), "("+strconv.FormatInt(n, 10)+")") {
			t.Errorf("the example does not tell of the deployment's %d", n)
		}
	}
}

// TestEveryKeyOfConfigJSONIsExplained counts the constants that name them.
func TestEveryKeyOfConfigJSONIsExplained(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(filepath.Join(root, "connector/config/auth.go"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`(?m)^\tKey[A-Za-z]+ += "`).FindAll(source, -1)
	if len(named) != len(configKeys()) || len(named) == 0 {
		t.Errorf("%d keys in the code, %d explained", len(named), len(configKeys()))
	}
}
