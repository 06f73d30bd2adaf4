//go:build unix

package chart

import "testing"

// TestGoodValuesAreTaken gives what is good, but close to what testdata/cases.yaml refuses, to schema and templates: a pattern that is too
// narrow keeps somebody from installing.
func TestGoodValuesAreTaken(t *testing.T) {
	t.Parallel()
	for name, json := range map[string]string{
		"networks":                              `networkPolicy.apiServerCIDRs=["0.0.0.0/0","10.0.0.1/32","192.168.250.199/9","::/0","::1/128","2001:db8::/64","fe80::1:2:3/10","1:2:3:4:5:6:7:8/128","1:2:3:4:5:6:7::/112","::2:3:4:5:6:7:8/100","2001:DB8:0:0::1/64"]`,
		"jobs' network policies in a namespace": `jobs={"namespaces":["team-a"],"networkPolicy":{"enabled":true}}`,
		"the socket below /run":                 `connector.socket.hostDir="/run/lanyard"`,
		"the socket in a directory of its own":  `connector.socket.hostDir="/lanyard"`,
		"the socket beside NVSentinel's":        `connector.socket.hostDir="/var/run/lanyard"`,
		"the socket below another's name":       `connector.socket.hostDir="/var/lib/kubelet-plugins/lanyard"`,
		"the spool on a disk of its own":        `connector.socket.spool.hostDir="/mnt/disks/ssd0/lanyard"`,
		"the store below /srv":                  `connector.socket.sinks.store={"enabled":true,"hostDir":"/srv/lanyard"}`,
		"NVSentinel's socket":                   `connector.socket={"hostDir":"/var/run/lanyard","sinks":{"forward":{"enabled":true,"hostSocket":"/var/run/nvsentinel/nvsentinel.sock"}}}`,
		"the largest review":                    `webhook.limits={"maxBodyBytes":67108864,"maxInFlightBytes":67108864}`,
		"labels and annotations":                `exchange={"podLabels":{"a":"","example.com/A_b.c":"1"},"podAnnotations":{"Example.com/a":"{\"b\": c!}"},"nodeSelector":{"node-role.kubernetes.io/control-plane":""}}`,
		"quantities":                            `webhook.resources={"requests":{"cpu":1,"memory":"1e8"},"limits":{"cpu":"1.5","memory":"128974848","ephemeral-storage":"2Gi","nvidia.com/gpu":0,"hugepages-2Mi":"500M"},"claims":[{"name":"a"}]}`,
		"nothing asked for":                     `exchange.resources={}`,
		"the test in a managed namespace":       `tests.namespace="team-a"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, args := range [][]string{{"--set-json", json}, {"--set-json", json, "--skip-schema-validation"}} {
				if _, err := findHelm(t).Template(t.Context(), args...); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
