//go:build unix

// Program keeper keeps a cluster with nodes running for people (make cluster-up, cluster-down, cluster-load). The cluster
// lives as long as a process of this program in the background, which is spoken to over a socket.
//
//	keeper up               starts the cluster, unless it runs, and says how to use it
//	keeper load IMAGE.tar   loads images into its nodes
//	keeper down             ends it, and clears away what killed clusters left behind
package main

import (
	"fmt"
	"os"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		args = []string{""}
	}
	switch command := args[0]; command {
	case "up":
		if why := nodes.Unavailable(); why != "" {
			return fmt.Errorf("%s", why)
		}
		return up()
	case "hold": // what up starts in the background
		return hold()
	case "load":
		return load(args[1:])
	case "down":
		return down()
	default:
		return fmt.Errorf("no command %q; there are up, load and down", command)
	}
}
