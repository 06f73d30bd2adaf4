package reserved_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/mutate/manifest"
	"github.com/lanyard-k8s/lanyard/mutate/reserved"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
)

func TestTablesAndPredicatesAgree(t *testing.T) {
	t.Parallel()
	for _, name := range reserved.Exact() {
		if !reserved.Reserved(name) {
			t.Errorf("%s is in the table and not reserved", name)
		}
	}
	for _, prefix := range reserved.Prefixes() {
		if !reserved.Reserved(prefix) || !reserved.Reserved(prefix+"X") {
			t.Errorf("%s is in the table and reserves nothing", prefix)
		}
	}
	for _, name := range reserved.Endpoints() {
		if !reserved.Endpoint(name) || reserved.Reserved(name) {
			t.Errorf("%s must be an endpoint and not reserved", name)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"NMP_PRINCIPAL":                    "reserved",
		"NMP_ACCESS_TOKEN":                 "reserved",
		"NEMO_WORKLOAD_TOKEN":              "reserved",
		"NEMO_WORKLOAD_TOKEN_FILE":         "reserved",
		"NMP_WORKLOAD_IDENTITY_TOKEN_FILE": "reserved",
		"NMP_WORKLOAD_":                    "reserved",
		"NMP_WORKLOAD_X":                   "reserved",
		"NEMO_WORKLOAD_X":                  "reserved",
		"NMP_WORKFLOW_X":                   "reserved",
		"NEMO_WORKFLOW_":                   "reserved",
		"NMP_PRINCIPAL_X":                  "free",
		"NMP_WORKLOAD":                     "free",
		"NEMO_ACCESS_TOKEN":                "free",
		"XNMP_PRINCIPAL":                   "free",
		"NMP_BASE_URL":                     "endpoint",
		"NMP_FILES_URL":                    "endpoint",
		"NMP__URL":                         "endpoint",
		"NMP_URL":                          "free",
		"NMP_BASE_URLS":                    "free",
		"nmp_base_url":                     "free",
		"NMP_CLIENT_SSL_CERT_FILE":         "endpoint",
		"":                                 "free",
		// Look-alikes: a dozen spellings of the same names.
		"nmp_principal":                    "alike",
		"Nmp_Principal":                    "alike",
		"NMP_PRINCIPAL ":                   "alike",
		"\tNMP_PRINCIPAL":                  "alike",
		"NMP.PRINCIPAL":                    "alike",
		"NMP-PRINCIPAL":                    "alike",
		"NMP_PRINCIPAL\u200b":              "alike",
		"N\u00adMP_PRINCIPAL":              "alike",
		"\ufeffNMP_PRINCIPAL":              "alike",
		"NMP_PRINCIPAL\ufe0f":              "alike",
		"NMP_PRINCIPAL\u00a0":              "alike",
		"\uff2e\uff2d\uff30_PRINCIPAL":     "alike",
		"NMP\uff3fPRINCIPAL":               "alike",
		"\U0001d40dMP_PRINCIPAL":           "alike",
		"NMP_PRINC\u0131PAL":               "alike",
		"NMP_PRINCIPAL\x00":                "alike",
		"\x7fNMP_PRINCIPAL":                "alike",
		"NMP_PRINCIPAL=root":               "alike",
		"nemo.workflow.x":                  "alike",
		"nmp-workload-identity-token-file": "alike",
		"NMP PRINCIPAL":                    "free",
		"NMPPRINCIPAL":                     "free",
		"\u041dMP_PRINCIPAL":               "free", // Cyrillic: another letter under every normal form
	} {
		t.Run(strconv.QuoteToASCII(name), func(t *testing.T) {
			t.Parallel()
			_, alike := reserved.LookAlike(name)
			got := "free"
			switch {
			case reserved.Reserved(name):
				got = "reserved"
			case reserved.Endpoint(name):
				got = "endpoint"
			case alike:
				got = "alike"
			}
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if alike && got == "reserved" {
				t.Error("a reserved name must not look like itself")
			}
		})
	}
}

// TestCompletes holds the prefix rule against its meaning: some key exists that makes the whole a reserved name.
func TestCompletes(t *testing.T) {
	t.Parallel()
	prefixes := []string{"", "A", "N", "NM", "NMP_", "NMP_P", "NMP_PRINCIPAL", "NMP_PRINCIPALS", "NMP_WORKLOAD", "NMP_WORKLOAD_", "NMP_WORKLOAD_X", "NEMO", "NEMO_X", "nmp_", "NMP_BASE_", "NMP_C"}
	keys := []string{"", "X", "S"}
	for _, full := range append(reserved.Exact(), reserved.Prefixes()...) {
		for i := range full {
			keys = append(keys, full[i:])
		}
	}
	for _, prefix := range prefixes {
		want := false
		for _, key := range keys {
			want = want || (prefix != "" && reserved.Reserved(prefix+key))
		}
		if name, got := reserved.Completes(prefix); got != want || got == (name == "") {
			t.Errorf("prefix %q: got %v (%q), want %v", prefix, got, name, want)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	own := []reserved.Own{{Name: "NMP_WORKLOAD_IDENTITY_TOKEN_FILE", Value: "/ours/token", Required: true}, {Name: "NMP_BASE_URL", Value: "https://ours"}}
	const ours = `{"name":"NMP_WORKLOAD_IDENTITY_TOKEN_FILE","value":"/ours/token"}`
	for name, tc := range map[string]struct {
		container string
		want      []reserved.Finding
	}{
		"a free name":                 {`"env":[{"name":"A","value":"NMP_PRINCIPAL"}]`, nil},
		"a literal":                   {`"env":[{"name":"A"},{"name":"NMP_PRINCIPAL","value":"x"}]`, []reserved.Finding{{Reason: violation.ReservedEnv, Index: 1, Name: "NMP_PRINCIPAL"}}},
		"an expansion":                {`"env":[{"name":"NMP_PRINCIPAL","value":"$(A)"}]`, []reserved.Finding{{Reason: violation.ReservedEnv, Name: "NMP_PRINCIPAL"}}},
		"a secret":                    {`"env":[{"name":"NMP_PRINCIPAL","valueFrom":{"secretKeyRef":{}}}]`, []reserved.Finding{{Reason: violation.ReservedEnv, Name: "NMP_PRINCIPAL"}}},
		"a file":                      {`"env":[{"name":"NMP_PRINCIPAL","valueFrom":{"fileKeyRef":{}}}]`, []reserved.Finding{{Reason: violation.ReservedEnv, Name: "NMP_PRINCIPAL"}}},
		"an unknown source":           {`"env":[{"name":"NMP_PRINCIPAL","valueFrom":{"future":1}}]`, []reserved.Finding{{Reason: violation.ReservedEnv, Name: "NMP_PRINCIPAL"}}},
		"an empty value and a source": {`"env":[{"name":"NMP_PRINCIPAL","value":"","valueFrom":{}}]`, []reserved.Finding{{Reason: violation.ReservedEnv, Name: "NMP_PRINCIPAL"}}},
		"a tombstone":                 {`"env":[{"name":"NMP_PRINCIPAL"},{"name":"NMP_WORKLOAD_X","value":""},{"name":"NEMO_WORKLOAD_TOKEN","value":null,"valueFrom":null}]`, nil},
		"two tombstones":              {`"env":[{"name":"NMP_PRINCIPAL"},{"name":"NMP_PRINCIPAL","value":""}]`, []reserved.Finding{{Reason: violation.DuplicateEnv, Index: 1, Name: "NMP_PRINCIPAL"}}},
		"ours":                        {`"env":[` + ours + `,{"name":"NMP_BASE_URL","value":"https://ours"}]`, nil},
		"ours twice":                  {`"env":[` + ours + `,` + ours + `]`, []reserved.Finding{{Reason: violation.DuplicateEnv, Index: 1, Name: "NMP_WORKLOAD_IDENTITY_TOKEN_FILE"}}},
		"ours, then theirs":           {`"env":[` + ours + `,{"name":"NMP_WORKLOAD_IDENTITY_TOKEN_FILE","value":"/theirs"}]`, []reserved.Finding{{Reason: violation.ReservedEnv, Index: 1, Name: "NMP_WORKLOAD_IDENTITY_TOKEN_FILE"}}},
		"ours emptied":                {`"env":[{"name":"NMP_WORKLOAD_IDENTITY_TOKEN_FILE","value":""}]`, []reserved.Finding{{Reason: violation.ReservedEnv, Name: "NMP_WORKLOAD_IDENTITY_TOKEN_FILE"}}},
		"another endpoint":            {`"env":[{"name":"NMP_BASE_URL","value":"https://theirs"},{"name":"NMP_X_URL","value":"https://ours"}]`, []reserved.Finding{{Reason: violation.Endpoint, Name: "NMP_BASE_URL"}, {Reason: violation.Endpoint, Index: 1, Name: "NMP_X_URL"}}},
		"a look-alike":                {`"env":[{"name":"nmp_principal"}]`, []reserved.Finding{{Reason: violation.LookAlike, Name: "nmp_principal", Canonical: "NMP_PRINCIPAL"}}},
		"prefixes":                    {`"envFrom":[{"prefix":"APP_"},{},{"prefix":"NMP_"},{"prefix":"NMP_WORKFLOW_ID_"}]`, []reserved.Finding{{Reason: violation.EnvFromPrefix, Index: 2, Name: "NMP_", Canonical: "NMP_PRINCIPAL"}, {Reason: violation.EnvFromPrefix, Index: 3, Name: "NMP_WORKFLOW_ID_", Canonical: "NMP_WORKFLOW_*"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []reserved.Finding
			reserved.Check(container(t, tc.container), own, func(f reserved.Finding) { got = append(got, f) })
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("findings differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		container string
		want      []string
	}{
		"without envFrom nothing is open": {`"env":[]`, nil},
		"an empty envFrom is none":        {`"envFrom":[]`, nil},
		"envFrom opens every exact name":  {`"envFrom":[{}]`, reserved.Exact()},
		"an entry of any kind closes its name": {
			`"envFrom":[{"prefix":"A_"}],"env":[{"name":"NMP_PRINCIPAL"},{"name":"NEMO_WORKLOAD_TOKEN","value":"x"}]`,
			[]string{"NMP_ACCESS_TOKEN", "NEMO_WORKLOAD_TOKEN_FILE", "NMP_WORKLOAD_IDENTITY_TOKEN_FILE"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, reserved.Open(container(t, tc.container))); diff != "" {
				t.Errorf("open names differ (-want +got):\n%s", diff)
			}
		})
	}
}

func container(t *testing.T, members string) *manifest.Container {
	t.Helper()
	p, err := manifest.Decode([]byte(`{"spec":{"containers":[{` + members + `}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	return &p.Spec.Containers[0]
}

func FuzzLookAlike(f *testing.F) {
	for _, seed := range []string{"NMP_PRINCIPAL", "nmp.principal ", "\u200bNMP-WORKLOAD_x", "\xff", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		canonical, ok := reserved.LookAlike(name)
		if ok && (!reserved.Reserved(canonical) || reserved.Reserved(name)) {
			t.Errorf("%q is said to look like %q", name, canonical)
		}
		// Who writes a reserved name in any case or with space around it is caught.
		if reserved.Reserved(strings.ToUpper(strings.TrimSpace(name))) && !ok && !reserved.Reserved(name) {
			t.Errorf("%q looks reserved and was not caught", name)
		}
	})
}
