//go:build unix

package gateway

import (
	"bytes"
	"net/http"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// middleware is one of Traefik's, as far as ours use it; another field is a fault.
type middleware struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		ForwardAuth *forwardAuth `json:"forwardAuth,omitempty"`
		Headers     *struct {
			CustomRequestHeaders map[string]string `json:"customRequestHeaders"`
		} `json:"headers,omitempty"`
	} `json:"spec"`
}

type forwardAuth struct {
	Address string `json:"address"`
	TLS     struct {
		CASecret string `json:"caSecret"`
	} `json:"tls"`
	TrustForwardHeader       *bool    `json:"trustForwardHeader"`
	AuthRequestHeaders       []string `json:"authRequestHeaders"`
	AuthResponseHeadersRegex string   `json:"authResponseHeadersRegex"`
}

func readTraefik(t *testing.T) (ask forwardAuth, strip map[string]string) {
	t.Helper()
	documents := bytes.Split([]byte(snippet(t, "traefik.yaml")), []byte("\n---\n"))
	if len(documents) != 2 {
		t.Fatalf("traefik.yaml has %d documents", len(documents))
	}
	var two [2]middleware
	for i, name := range []string{"lanyard-authenticate", "lanyard-strip"} {
		must(t, yaml.UnmarshalStrict(documents[i], &two[i]))
		if m := two[i]; m.APIVersion != "traefik.io/v1alpha1" || m.Kind != "Middleware" || m.Metadata.Name != name {
			t.Errorf("document %d is %s %s %s, want Middleware %s", i, m.APIVersion, m.Kind, m.Metadata.Name, name)
		}
	}
	if two[0].Spec.ForwardAuth == nil || two[0].Spec.Headers != nil || two[1].Spec.Headers == nil || two[1].Spec.ForwardAuth != nil {
		t.Fatal("the first must be a forwardAuth, the second headers, and nothing else")
	}
	return *two[0].Spec.ForwardAuth, two[1].Spec.Headers.CustomRequestHeaders
}

func TestTraefikIsClosed(t *testing.T) {
	t.Parallel()
	ask, strip := readTraefik(t)
	if want := "https://" + serverName + ":8443" + wire.PathAuthenticate; ask.Address != want || ask.TLS.CASecret == "" {
		t.Errorf("asks %s with CA %q, want %s with one", ask.Address, ask.TLS.CASecret, want)
	}
	if ask.TrustForwardHeader == nil || *ask.TrustForwardHeader {
		t.Error("a client's X-Forwarded headers are trusted")
	}
	if diff := cmp.Diff([]string{"Authorization"}, ask.AuthRequestHeaders); diff != "" {
		t.Errorf("what the exchange is sent (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"Authorization": "", "Proxy-Authorization": "", "Cookie": "", "Connection": ""}, strip); diff != "" {
		t.Errorf("what is taken off (-want +got):\n%s", diff)
	}
}

// TestTraefiksPatternCoversTheTrustedHeaders tries the pattern by which Traefik takes headers off a request and puts those of
// the exchange's answer on. Traefik matches it against names in Go's canonical form.
func TestTraefiksPatternCoversTheTrustedHeaders(t *testing.T) {
	t.Parallel()
	ask, _ := readTraefik(t)
	pattern := regexp.MustCompile(ask.AuthResponseHeadersRegex)
	covered := []string{"X_NMP_Principal_Id", "x.nmp.principal.id", "X-NMP-Principal-Tenant", "X-NMP_Scopes"}
	for _, suffix := range wire.TrustedHeaders() {
		covered = append(covered, wire.DefaultHeaderPrefix+suffix)
	}
	for _, name := range covered {
		if !pattern.MatchString(http.CanonicalHeaderKey(name)) {
			t.Errorf("%s of a client's reaches the model", name)
		}
	}
	for _, name := range []string{"Content-Type", "X-Request-Id", "Www-Authenticate", "Cache-Control", "X-Nmpx"} {
		if pattern.MatchString(name) {
			t.Errorf("%s is taken off or overwritten", name)
		}
	}
}
