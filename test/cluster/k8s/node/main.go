// Program node is what a cluster with real nodes runs beyond program k8s: kube-scheduler, kubelet and kube-proxy in one
// file. It runs the component whose name it is called by, as k8s does. It shares k8s's module, so that nearly all of its
// packages are compiled already, but is a program of its own: a control plane without nodes need not build or link it.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics, as the released programs have them
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// components maps every name that this program answers to onto what makes its command. A command is only made when its
// turn has come: each of them registers global flags and feature gates.
func components() map[string]func() *cobra.Command {
	return map[string]func() *cobra.Command{
		"kube-scheduler": func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"kubelet":        func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
		"kube-proxy":     proxy.NewProxyCommand,
	}
}

func main() {
	name := filepath.Base(os.Args[0])
	known := components()
	if known[name] == nil && len(os.Args) > 1 {
		name, os.Args = os.Args[1], os.Args[1:]
	}
	command := known[name]
	if command == nil {
		fmt.Fprintf(os.Stderr, "unknown component %q: call it by, or with, one of %s\n",
			name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		os.Exit(2)
	}
	os.Exit(cli.Run(command()))
}
