package wire_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

func TestParseUsername(t *testing.T) {
	t.Parallel()
	label63, name253 := strings.Repeat("a", 63), strings.Repeat("b", 253)
	for name, tc := range map[string]struct {
		username string
		want     wire.Account // zero means refused
	}{
		"the plain form":                          {"system:serviceaccount:gpu:monitor", wire.Account{Namespace: "gpu", Name: "monitor"}},
		"a name with dots":                        {"system:serviceaccount:gpu:monitor.v2", wire.Account{Namespace: "gpu", Name: "monitor.v2"}},
		"digits alone":                            {"system:serviceaccount:1:2", wire.Account{Namespace: "1", Name: "2"}},
		"the longest names":                       {"system:serviceaccount:" + label63 + ":" + name253, wire.Account{Namespace: label63, Name: name253}},
		"a namespace one byte too long":           {"system:serviceaccount:" + label63 + "a:x", wire.Account{}},
		"a name one byte too long":                {"system:serviceaccount:gpu:" + name253 + "b", wire.Account{}},
		"a namespace with a dot":                  {"system:serviceaccount:gpu.a:x", wire.Account{}},
		"upper case in the namespace":             {"system:serviceaccount:Gpu:monitor", wire.Account{}},
		"upper case in the name":                  {"system:serviceaccount:gpu:Monitor", wire.Account{}},
		"upper case in the prefix":                {"System:serviceaccount:gpu:monitor", wire.Account{}},
		"a leading space":                         {" system:serviceaccount:gpu:monitor", wire.Account{}},
		"a trailing space":                        {"system:serviceaccount:gpu:monitor ", wire.Account{}},
		"a trailing newline":                      {"system:serviceaccount:gpu:monitor\n", wire.Account{}},
		"a space within":                          {"system:serviceaccount:gpu:mon itor", wire.Account{}},
		"a third part":                            {"system:serviceaccount:gpu:monitor:x", wire.Account{}},
		"no name":                                 {"system:serviceaccount:gpu", wire.Account{}},
		"an empty name":                           {"system:serviceaccount:gpu:", wire.Account{}},
		"an empty namespace":                      {"system:serviceaccount::monitor", wire.Account{}},
		"a name that starts with a dot":           {"system:serviceaccount:gpu:.monitor", wire.Account{}},
		"a name with two dots together":           {"system:serviceaccount:gpu:a..b", wire.Account{}},
		"a name that ends in a hyphen":            {"system:serviceaccount:gpu:monitor-", wire.Account{}},
		"a pattern":                               {"system:serviceaccount:gpu:*", wire.Account{}},
		"a user":                                  {"system:anonymous", wire.Account{}},
		"a letter that only looks like a plain a": {"system:serviceaccount:gpu:mоnitor", wire.Account{}},
		"nothing":                                 {"", wire.Account{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := wire.ParseUsername(tc.username)
			if got != tc.want || (err == nil) != (tc.want != wire.Account{}) {
				t.Errorf("ParseUsername(%q) = %v, %v; want %v", tc.username, got, err, tc.want)
			}
		})
	}
}

// FuzzAccount holds the parsers to the API server's own validation and to their own texts.
func FuzzAccount(f *testing.F) {
	for _, seed := range []string{"gpu/monitor", "gpu/monitor.v2", "a/b/c", "A/b", "a-/b", "a/-", "/", "a.b/c", strings.Repeat("a", 64) + "/b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		namespace, name, found := strings.Cut(s, "/")
		valid := found && len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(name)) == 0
		account, err := wire.ParseAccount(s)
		if (err == nil) != valid {
			t.Fatalf("ParseAccount(%q): %v, while Kubernetes says valid=%v", s, err, valid)
		}
		if err != nil {
			return
		}
		if account.String() != s {
			t.Errorf("%q became %q", s, account)
		}
		if again, err := wire.ParseUsername(account.Username()); err != nil || again != account {
			t.Errorf("ParseUsername(%q) = %v, %v", account.Username(), again, err)
		}
	})
}
