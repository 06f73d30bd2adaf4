// Program coredns is CoreDNS with only the plugins that a cluster of test/cluster/nodes needs: its zone comes from the API
// server, and there is no way out to forward other names to. It is a module of its own because CoreDNS asks for other
// versions of the Kubernetes libraries than the cluster itself.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

func main() {
	// The order in which plugins handle a query: CoreDNS only calls those named here.
	dnsserver.Directives = []string{"errors", "log", "health", "ready", "cache", "reload", "kubernetes", "loop", "loadbalance"}
	coremain.Run()
}
