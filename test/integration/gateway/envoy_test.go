//go:build unix

package gateway

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// exact is one of Envoy's matchers.
type exact struct {
	Exact string `json:"exact"`
}

type patterns struct {
	Patterns []exact `json:"patterns"`
}

// filter is what this test reads of an HTTP filter.
type filter struct {
	Name  string `json:"name"`
	Typed struct {
		Type    string `json:"@type"`
		Default struct {
			Inline string `json:"inline_string"`
		} `json:"default_source_code"`
		FailureModeAllow *bool `json:"failure_mode_allow"`
		StatusOnError    struct {
			Code string `json:"code"`
		} `json:"status_on_error"`
		HTTPService struct {
			PathPrefix string `json:"path_prefix"`
			Server     struct {
				Cluster string `json:"cluster"`
			} `json:"server_uri"`
			Response struct {
				Upstream patterns `json:"allowed_upstream_headers"`
			} `json:"authorization_response"`
		} `json:"http_service"`
	} `json:"typed_config"`
}

// envoy is what this test reads of the configuration.
type envoy struct {
	Static struct {
		Listeners []struct {
			Chains []struct {
				Filters []struct {
					Typed struct {
						Normalize bool   `json:"normalize_path"`
						Merge     bool   `json:"merge_slashes"`
						Escaped   string `json:"path_with_escaped_slashes_action"`
						Common    struct {
							Underscores string `json:"headers_with_underscores_action"`
						} `json:"common_http_protocol_options"`
						Routes struct {
							Hosts []struct {
								Remove []string         `json:"request_headers_to_remove"`
								Routes []map[string]any `json:"routes"`
							} `json:"virtual_hosts"`
						} `json:"route_config"`
						Filters []filter `json:"http_filters"`
					} `json:"typed_config"`
				} `json:"filters"`
			} `json:"filter_chains"`
		} `json:"listeners"`
		Clusters []struct {
			Name      string `json:"name"`
			Transport *struct {
				Typed struct {
					Common struct {
						Validation struct {
							CA    struct{ Filename string } `json:"trusted_ca"`
							Names []struct{ Matcher exact } `json:"match_typed_subject_alt_names"`
						} `json:"validation_context"`
					} `json:"common_tls_context"`
				} `json:"typed_config"`
			} `json:"transport_socket"`
		} `json:"clusters"`
	} `json:"static_resources"`
}

func readEnvoy(t *testing.T) envoy {
	t.Helper()
	var e envoy
	must(t, yaml.Unmarshal([]byte(snippet(t, "envoy.yaml")), &e))
	if len(e.Static.Listeners) != 1 || len(e.Static.Listeners[0].Chains) != 1 || len(e.Static.Listeners[0].Chains[0].Filters) != 1 {
		t.Fatal("envoy.yaml must have one listener with one filter chain and one filter")
	}
	return e
}

func TestEnvoyIsClosed(t *testing.T) {
	t.Parallel()
	e := readEnvoy(t)
	manager := e.Static.Listeners[0].Chains[0].Filters[0].Typed
	if !manager.Normalize || !manager.Merge || manager.Escaped != "REJECT_REQUEST" || manager.Common.Underscores != "REJECT_REQUEST" {
		t.Errorf("odd paths or names pass: %+v", manager)
	}
	var order []string
	for _, f := range manager.Filters {
		order = append(order, f.Name)
	}
	if diff := cmp.Diff([]string{"lanyard.headers", "envoy.filters.http.ext_authz", "lanyard.named", "envoy.filters.http.router"}, order); diff != "" {
		t.Fatalf("filters (-want +got):\n%s", diff)
	}
	ask := manager.Filters[1].Typed
	if ask.FailureModeAllow == nil || *ask.FailureModeAllow || ask.StatusOnError.Code != "ServiceUnavailable" || ask.HTTPService.PathPrefix != wire.PathAuthenticate || ask.HTTPService.Server.Cluster != "lanyard_exchange" {
		t.Errorf("the question is %+v", ask)
	}
	var want []exact
	for _, suffix := range wire.TrustedHeaders() {
		want = append(want, exact{strings.ToLower(wire.DefaultHeaderPrefix + suffix)})
	}
	if diff := cmp.Diff(want, ask.HTTPService.Response.Upstream.Patterns); diff != "" {
		t.Errorf("headers that are passed on (-want +got):\n%s", diff)
	}
	for _, host := range manager.Routes.Hosts {
		for _, name := range []string{"authorization", "cookie", "proxy-authorization"} {
			if !slices.Contains(host.Remove, name) {
				t.Errorf("%s reaches the model", name)
			}
		}
		for _, route := range host.Routes {
			if route["typed_per_filter_config"] != nil {
				t.Error("a route changes the filters")
			}
		}
	}
	for _, c := range e.Static.Clusters {
		if c.Name != "lanyard_exchange" {
			continue
		}
		if c.Transport == nil || c.Transport.Typed.Common.Validation.CA.Filename == "" || len(c.Transport.Typed.Common.Validation.Names) != 1 || c.Transport.Typed.Common.Validation.Names[0].Matcher.Exact != serverName {
			t.Errorf("the exchange is not verified: %+v", c.Transport)
		}
	}
}

// filtered runs one of the Lua filters on a request's headers.
func filtered(t *testing.T, name string, headers ...string) string {
	t.Helper()
	lua, err := exec.LookPath("lua")
	if err != nil {
		t.Skip("SKIPPED: no lua is installed here, so Envoy's Lua filters are not tried; install Debian's lua5.4")
	}
	for _, f := range readEnvoy(t).Static.Listeners[0].Chains[0].Filters[0].Typed.Filters {
		if f.Name != name {
			continue
		}
		script := filepath.Join(t.TempDir(), "filter.lua")
		must(t, os.WriteFile(script, []byte(f.Typed.Default.Inline), 0o600))
		out, err := exec.CommandContext(t.Context(), lua, append([]string{"testdata/filter.lua", script}, headers...)...).CombinedOutput() //nolint:gosec // a fixed program
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	t.Fatalf("there is no filter %s", name)
	return ""
}

func TestEnvoyPassesListedHeadersOnly(t *testing.T) {
	t.Parallel()
	got := filtered(t, "lanyard.headers", ":method=POST", ":path=/v1?x=y", ":authority=model.example", "Authorization=Bearer a.b.c", "Content-Type=application/json", "Accept=*/*",
		"X-NMP-Principal-Id=root", "x-nmp-principal-id=admin", "X_NMP_Principal_Id=root", "X.NMP.Principal.Id=root", "X-NMP-Principal-Tenant=root", "X-NMP-Authorized=true", "X-NMP-Internal=1",
		"X-NMP-Scopes=admin", "X-NHX-Principal-Id=root", "Connection=X-NMP-Principal-Id", "Cookie=a=b", "Proxy-Authorization=Basic x", "X-Forwarded-For=127.0.0.1", "X-Original-Url=/admin", "Content-Length=4")
	want := strings.Join([]string{":method=POST", ":path=/v1?x=y", ":authority=model.example", "authorization=Bearer a.b.c", "content-type=application/json", "accept=*/*", "content-length=4"}, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

func TestEnvoyPassesNobodyWithoutAName(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		headers []string
		want    string
	}{
		"named":         {[]string{"x-nmp-principal-id=alice"}, "x-nmp-principal-id=alice"},
		"not named":     {[]string{"accept=*/*"}, "answered 503"},
		"an empty name": {[]string{"x-nmp-principal-id="}, "answered 503"},
	} {
		if got := filtered(t, "lanyard.named", tc.headers...); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// TestNginxPassesEveryTrustedHeader holds the snippets to the words of the exchange.
func TestNginxPassesEveryTrustedHeader(t *testing.T) {
	t.Parallel()
	text := snippet(t, "nginx-location.conf")
	for _, suffix := range wire.TrustedHeaders() {
		name := wire.DefaultHeaderPrefix + suffix
		variable := "$upstream_http_" + strings.ToLower(strings.ReplaceAll(name, "-", "_")) + ";"
		if strings.Count(text, "proxy_set_header "+name+" ") != 1 || strings.Count(text, variable) != 1 {
			t.Errorf("%s is not taken from the exchange's answer, once", name)
		}
	}
	if strings.Contains(text, "$http_authorization") || strings.Contains(text, "$http_cookie") || strings.Contains(text, "$http_x_nmp") {
		t.Error("a credential or a trusted header of the client's reaches the model")
	}
}
