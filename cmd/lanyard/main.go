// Command lanyard is the user's command: it shows what Lanyard would do with a manifest, and examines a cluster.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}
