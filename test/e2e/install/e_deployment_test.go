//go:build unix

package install

import "testing"

// TestTheDeploymentAlone runs the connector without a DaemonSet: the chart's test then speaks to it over TLS, through the network
// policies.
func TestTheDeploymentAlone(t *testing.T) {
	h := home.Enter(t)
	mustInstall(t, h, "connector: {socket: {enabled: false}, deployment: {enabled: true}}")
	helmTest(t, h)
}
