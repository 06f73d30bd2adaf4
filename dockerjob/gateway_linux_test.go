package dockerjob_test

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/dockerjob"
)

// TestGatewayThatTheEngineDoesNotName answers as an Engine 20.10 does that was never restarted. The loopback interface plays the bridge.
func TestGatewayThatTheEngineDoesNotName(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ config, options, want, fault, driver string }{
		"it names one":                       {`{"Subnet":"172.17.0.0/16","Gateway":"172.17.0.1"}`, `{}`, "172.17.0.1", "", ""},
		"the bridge's interface has it":      {`{"Subnet":"127.0.0.0/8"}`, `{"com.docker.network.bridge.name":"lo"}`, "127.0.0.1", "", ""},
		"another subnet comes first":         {`{"Subnet":"fd00:17::/64"},{"Subnet":"127.0.0.0/8"}`, `{"com.docker.network.bridge.name":"lo"}`, "127.0.0.1", "", ""},
		"the first address is the machine's": {`{"Subnet":"127.0.0.0/16"}`, `{"com.docker.network.bridge.name":"no-such-one"}`, "127.0.0.1", "", ""},
		"nobody has it": {
			`{"Subnet":"203.0.113.0/24"}`, `{"com.docker.network.bridge.name":"lo"}`, "",
			`network "bridge": the Engine names no gateway, and interface "lo" of this machine has no address in its subnet`, "",
		},
		"no interface of that name": {`{"Subnet":"203.0.113.0/24"}`, `{"com.docker.network.bridge.name":"no-such-one"}`, "", `interface "no-such-one" of this machine has no address`, ""},
		"no options":                {`{"Subnet":"203.0.113.0/24"}`, `null`, "", `interface "docker0" of this machine`, ""},
		"no bridge":                 {`{"Subnet":"127.0.0.0/8"}`, `{"com.docker.network.bridge.name":"lo"}`, "", `network "bridge": it has no gateway; jobs need a bridge network`, "ipvlan"},
		"no subnet":                 {``, `{"com.docker.network.bridge.name":"lo"}`, "", "names no gateway", ""},
		"the interface is elsewhere, and the first address nobody's": {`{"Subnet":"127.3.0.0/16"}`, `{"com.docker.network.bridge.name":"lo"}`, "", "no address in its subnet", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("API-Version", "1.41")
				w.Header().Set("Content-Type", "application/json")
				if strings.HasSuffix(r.URL.Path, "/networks/bridge") {
					fmt.Fprintf(w, `{"Name":"bridge","Id":"0f8b1cb5a5a35e3b","Scope":"local","Driver":%q,"IPAM":{"Driver":"default","Options":null,"Config":[%s]},"Options":%s}`, cmp.Or(tc.driver, "bridge"), tc.config, tc.options)
				}
			}))
			defer s.Close()
			e, err := dockerjob.NewEngine("tcp://" + s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = e.Close() }()
			at, err := e.Gateway(t.Context(), "bridge")
			if tc.fault == "" && (err != nil || at.String() != tc.want) {
				t.Errorf("the gateway is %v, %v; want %s", at, err, tc.want)
			}
			if tc.fault != "" && (err == nil || !strings.Contains(err.Error(), tc.fault)) {
				t.Errorf("got %v, %v; want the fault %q", at, err, tc.fault)
			}
		})
	}
}
