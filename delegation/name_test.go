package delegation_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/delegation"
)

func TestNamesAreTheGoldenOnes(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"job-f3eadcf4fb3d1d9d1ef82cb40ff41b6b4b9369c73dffe155":    delegation.JobName("default", "job-123", "attempt-1", "step-a"),
		"ref-e6126bc95831a0a5bb332108689b21439311c9be5f1bb841":    delegation.PodName("nemo-platform", "system:serviceaccount:nemo-runs:job-runner", "pod-uid-123"),
		"ref-496c8f461419a4f366e6c01f71f42e9ece4ddf361fa92324":    delegation.PodName("nemo-platform", "system:serviceaccount:ns:runner", "pod-uid-123"),
		"docker-6046cda3938a5968092e01f3381c8f867c6e137b84228430": delegation.DockerName("default", "deployment", "deployment-123", "container-abc"),
	} {
		if got != want {
			t.Errorf("name = %s, want %s", got, want)
		}
		if !delegation.ValidName(got) {
			t.Errorf("%s is no valid name", got)
		}
	}
}

func TestValidName(t *testing.T) {
	t.Parallel()
	digits := strings.Repeat("0f", 24)
	for name, want := range map[string]bool{
		"job-" + digits: true, "ref-" + digits: true, "docker-" + digits: true,
		"": false, "job-": false, "job": false, digits: false, "pod-" + digits: false, "JOB-" + digits: false,
		"job-" + strings.ToUpper(digits): false, "job-" + digits + "0": false, "job-" + digits[1:]: false,
		"job-" + digits + "\n": false, " job-" + digits: false, "ref-" + digits[1:] + "g": false, "ref--" + digits[1:]: false,
	} {
		if got := delegation.ValidName(name); got != want {
			t.Errorf("ValidName(%q) = %v, want %v", name, got, want)
		}
	}
}

// plainName states the rule a second time: every byte that needs an escape is replaced, all others stay.
func plainName(prefix string, words ...string) string {
	table := []string{`"`, `\"`, `\`, `\\`, "\b", `\b`, "\f", `\f`, "\n", `\n`, "\r", `\r`, "\t", `\t`}
	for c := range 0x20 {
		if !strings.ContainsRune("\b\f\n\r\t", rune(c)) {
			table = append(table, string(rune(c)), fmt.Sprintf(`\u%04x`, c))
		}
	}
	var quoted []string
	for _, w := range words {
		quoted = append(quoted, `"`+strings.NewReplacer(table...).Replace(w)+`"`)
	}
	sum := sha256.Sum256([]byte("[" + strings.Join(quoted, ",") + "]"))
	return prefix + "-" + hex.EncodeToString(sum[:24])
}

// FuzzNames compares every name with the plain statement, and the encoding with what a JSON decoder makes of it.
func FuzzNames(f *testing.F) {
	f.Add("default", "job-123", "attempt-1", "step-a")
	f.Add("a\"b", `c\d`, "\b\f\n\r\t\x00\x1f\x7f", "<&>\u2028\u2029")
	f.Add("é", "日本", "😀", "\xff\xfe")
	f.Add("0", "0", "\xdc", "\x92")
	f.Add("", "\",\"", "[]", "\\u0000")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		if diff := cmp.Diff(plainName("job", a, b, c, d), delegation.JobName(a, b, c, d)); diff != "" {
			t.Errorf("job name differs (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(plainName("docker", d, c, b, a), delegation.DockerName(d, c, b, a)); diff != "" {
			t.Errorf("docker name differs (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(plainName("ref", a, b, delegation.ReferencePodUID, c), delegation.PodName(a, b, c)); diff != "" {
			t.Errorf("pod name differs (-want +got):\n%s", diff)
		}
		if text := string(delegation.EncodeNames(a, b, c, d)); utf8.ValidString(strings.Join([]string{a, b, c, d}, " ")) {
			var back []string
			if err := json.Unmarshal([]byte(text), &back); err != nil {
				t.Fatalf("%q is no JSON: %v", text, err)
			}
			if diff := cmp.Diff([]string{a, b, c, d}, back); diff != "" {
				t.Errorf("read back (-want +got):\n%s", diff)
			}
		}
		if a != b && delegation.JobName(a, "", "", "") == delegation.JobName(b, "", "", "") {
			t.Errorf("%q and %q share a name", a, b)
		}
	})
}
