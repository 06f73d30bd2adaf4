//go:build unix

package chart

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// gatewayFiles are the gateways' configurations in a rendering.
func gatewayFiles(t *testing.T, profile string, args ...string) map[string]string {
	t.Helper()
	o := find(render(t, profile, args...), "ConfigMap", "lanyard-gateway")
	if o == nil {
		return nil
	}
	files, _, err := unstructured.NestedStringMap(o.Object, "data")
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestGatewaysAreToldNamesAndPrefix renders the snippets for another namespace and prefix; test/integration/gateway runs those
// of the default.
func TestGatewaysAreToldNamesAndPrefix(t *testing.T) {
	t.Parallel()
	byDefault := gatewayFiles(t, "default")
	if diff := cmp.Diff([]string{"envoy.yaml", "nginx-http.conf", "nginx-location.conf", "nginx-server.conf", "traefik.yaml"}, slices.Sorted(maps.Keys(byDefault))); diff != "" {
		t.Fatalf("files (-want +got):\n%s", diff)
	}
	trusted := regexp.MustCompile(`(?i)x.nmp`)
	other := gatewayFiles(t, "exchange-postgres", "--namespace", "elsewhere") // its prefix is X-NHX-
	for name, text := range byDefault {
		if n := strings.Count(text, "lanyard-exchange.lanyard.svc"); n == 0 && name != "nginx-location.conf" {
			t.Errorf("%s does not name the exchange's Service", name)
		}
		if found := trusted.FindAllString(other[name], -1); len(found) > 0 || strings.Contains(other[name], "NMP") {
			t.Errorf("%s names headers of the default prefix: %q", name, found)
		}
		if strings.Contains(other[name], "lanyard.svc") {
			t.Errorf("%s names the Service of another namespace", name)
		}
		want := strings.NewReplacer("lanyard-exchange.lanyard.svc", "lanyard-exchange.elsewhere.svc", "NMP", "NHX", "nmp", "nhx").Replace(text)
		if diff := cmp.Diff(want, other[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if gatewayFiles(t, "rules-only") != nil {
		t.Error("gateways are told of an exchange that is not installed")
	}
}
