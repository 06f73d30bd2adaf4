// Program k8s is etcd, kube-apiserver, kube-controller-manager and kubectl in one file. It runs the component whose name
// it is called by, so that one link step and one file on disk take the place of four; package cluster lays symbolic links
// of those names beside it. It is a module of its own: Kubernetes pins dozens of library versions that the rest of the
// project need not follow.
//
// Called by its own name, it takes the component as its first argument: "k8s kube-apiserver --version".
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics, as the released programs have them
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

// components maps every name that this program answers to onto what runs it. What only a cluster with real nodes runs is in
// program node, in the folder of that name.
func components() map[string]func() int {
	return map[string]func() int{
		"etcd":                    runEtcd,
		"kube-apiserver":          runCommand(apiserver.NewAPIServerCommand),
		"kube-controller-manager": runCommand(controllers.NewControllerManagerCommand),
		"kubectl":                 runKubectl,
	}
}

func main() {
	name := filepath.Base(os.Args[0])
	known := components()
	if known[name] == nil && len(os.Args) > 1 {
		name, os.Args = os.Args[1], os.Args[1:]
	}
	run := known[name]
	if run == nil {
		fmt.Fprintf(os.Stderr, "unknown component %q: call it by, or with, one of %s\n",
			name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		os.Exit(2)
	}
	os.Exit(run())
}

// runCommand runs a component that is a cobra command. The command is only made when its turn has come: each of them
// registers global flags and feature gates.
func runCommand(command func() *cobra.Command) func() int {
	return func() int { return cli.Run(command()) }
}

// runEtcd hands over to etcd, which ends the process by itself.
func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}

// runKubectl prints errors as kubectl does, rather than as a server's one line with its usage.
func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
	return 0
}
