package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// secret is a signature that must not show up anywhere.
const secret = "s3cretsignatures3cret"

// token makes a token with these claims and the signature that must not be seen.
func token(t *testing.T, claims map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"ES256","typ":"JWT"}`)) + "." + part(payload) + "." + secret
}

// tokenFile writes a token to a file.
func tokenFile(t *testing.T, claims map[string]any) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token(t, claims)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// mustRun runs a sub-command, wants its exit code, and returns what it has printed, in which no token may be.
func mustRun(t *testing.T, want int, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if got := run(t.Context(), args, &out); got != want {
		t.Errorf("%v ended with %d, want %d; it printed %s", args, got, want, &out)
	}
	if strings.Contains(out.String(), secret) || strings.Contains(out.String(), "eyJ") {
		t.Errorf("%v printed a token: %s", args, &out)
	}
	return out.String()
}

func TestTokensAreStruckOut(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	for _, text := range []string{"Bearer " + token(t, map[string]any{"sub": "x"}), "nmp_obo_v1." + secret} {
		newPrinter(&out).print(map[string]string{"said": text})
	}
	if want := 2; strings.Count(out.String(), struck) != want || strings.Contains(out.String(), secret) {
		t.Errorf("printed %s, want %d tokens struck out", &out, want)
	}
}

func TestCommandLines(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want int
		says string
	}{
		"no sub-command":            {nil, 2, "sub-command"},
		"one that is not there":     {[]string{"fly"}, 2, "sub-command"},
		"a flag that is not there":  {[]string{"exit", "--fly"}, 2, "fly"},
		"an argument too many":      {[]string{"exit", "now"}, 2, "now"},
		"an exit code":              {[]string{"exit", "--code=7"}, 7, ""},
		"nobody to speak to":        {[]string{"publisher", "--target=127.0.0.1:1", "--token-file=/nowhere", "--count=1", "--patience=50ms", "--interval=0"}, 1, `"outcome":"unanswered"`},
		"no events":                 {[]string{"publisher", "--events=0"}, 2, "--events"},
		"a mode that is not there":  {[]string{"job", "--mode=magic"}, 2, "sdk or http"},
		"a variable that is absent": {[]string{"env", "LANYARD_NO_SUCH_VARIABLE"}, 0, `"set":false`},
		"nothing to call":           {[]string{"call"}, 2, "--url"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := mustRun(t, tc.want, tc.args...); !strings.Contains(got, tc.says) {
				t.Errorf("it said %s, want something about %q", got, tc.says)
			}
		})
	}
}

func TestClaims(t *testing.T) {
	t.Parallel()
	file := tokenFile(t, map[string]any{"sub": "system:serviceaccount:a:b", "aud": []string{"nemo-platform"}, "jti": "one"})
	got := mustRun(t, 0, "claims", "--file="+file)
	for _, want := range []string{`"sub":"system:serviceaccount:a:b"`, `"jti":"one"`, `"aud":["nemo-platform"]`} {
		if !strings.Contains(got, want) {
			t.Errorf("claims printed %s, want %s", got, want)
		}
	}
}

// TestJobByHTTP holds the mode without our SDK to a server that speaks as the exchange does; the real one is on the cluster.
func TestJobByHTTP(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	platform := httptest.NewServer(mux)
	t.Cleanup(platform.Close)
	mux.HandleFunc("GET /apis/auth/discovery", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"oidc": map[string]string{
			"workload_client_id": "nemo-platform", "workload_token_endpoint": platform.URL + "/apis/auth/token", "workload_audience": "nemo-platform-api",
		}})
	})
	subject := tokenFile(t, map[string]any{"sub": "system:serviceaccount:a:b"})
	asked := 0
	mux.HandleFunc("POST /apis/auth/token", func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			w.WriteHeader(http.StatusServiceUnavailable) // not judged yet
			return
		}
		if r.FormValue("subject_token") == "" || r.FormValue("client_id") != "nemo-platform" || r.FormValue("audience") != "nemo-platform-api" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"access_token": token(t, map[string]any{"sub": "alice", "act": map[string]string{"sub": "system:serviceaccount:a:b"}, "exp": 4102444800}), "token_type": "Bearer",
		})
	})
	got := mustRun(t, 0, "job", "--mode=http", "--base-url="+platform.URL, "--token-file="+subject)
	if !strings.Contains(got, `"sub":"alice"`) || !strings.Contains(got, `"act":{"sub":"system:serviceaccount:a:b"}`) {
		t.Errorf("job printed %s, want alice and her workload", got)
	}
}

func TestCertificate(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(server.URL, "https://")
	want := `"serial":"` + server.Certificate().SerialNumber.String() + `"`
	if got := mustRun(t, 0, "certificate", "--address="+address, "--ca-file="+ca); !strings.Contains(got, want) {
		t.Errorf("it printed %s, want %s", got, want)
	}
	if err := os.WriteFile(ca, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := mustRun(t, 1, "certificate", "--address="+address, "--ca-file="+ca); !strings.Contains(got, "the file holds none") {
		t.Errorf("it printed %s, want that there is no CA", got)
	}
}

func TestInjector(t *testing.T) {
	t.Parallel()
	pod := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}, Volumes: []corev1.Volume{{Name: "secret"}}}}
	for name, tc := range map[string]struct {
		flags sidecarFlags
		want  []string // the paths of its operations
	}{
		"before the pod's own":  {sidecarFlags{name: "mesh", first: true}, []string{"/spec/containers/0"}},
		"behind the pod's own":  {sidecarFlags{name: "mesh"}, []string{"/spec/containers/-"}},
		"a native sidecar":      {sidecarFlags{name: "mesh", native: true, first: true}, []string{"/spec/initContainers"}},
		"one that mounts":       {sidecarFlags{name: "mesh", mount: "secret"}, []string{"/spec/containers/-"}},
		"one that is there now": {sidecarFlags{name: "main"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, err := json.Marshal(pod)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := tc.flags.answer(&admissionv1.AdmissionRequest{UID: "u", Object: runtime.RawExtension{Raw: raw}})
			if err != nil || !answer.Allowed || answer.UID != "u" {
				t.Fatalf("answer %v, error %v, want the pod allowed", answer, err)
			}
			var got []operation
			if answer.Patch != nil {
				if err := json.Unmarshal(answer.Patch, &got); err != nil {
					t.Fatal(err)
				}
			}
			var paths []string
			for _, o := range got {
				paths = append(paths, o.Path)
			}
			if diff := cmp.Diff(tc.want, paths); diff != "" {
				t.Errorf("paths (-want +got):\n%s", diff)
			}
			if tc.flags.mount != "" && !strings.Contains(string(answer.Patch), `"mountPath":"/stolen"`) {
				t.Errorf("the sidecar mounts nothing: %s", answer.Patch)
			}
		})
	}
}
