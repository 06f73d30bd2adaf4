// Program image packs static programs into an image that `docker load` and others read (package dockerarchive).
//
//	image -arch amd64 -tag lanyard-k8s/lanyard:v0.1.0 -entrypoint /webhook -out lanyard.tar dist/amd64/webhook
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/lanyard-k8s/lanyard/internal/dockerarchive"
)

func main() {
	var img dockerarchive.Image
	out := flag.String("out", "", "the `file` to write")
	flag.StringVar(&img.Arch, "arch", "amd64", "the programs' architecture, in Go's words")
	flag.StringVar(&img.Tag, "tag", "", "the image's `name:tag`")
	flag.StringVar(&img.Entrypoint, "entrypoint", "", "the program to run, as `/name`")
	flag.Parse()
	img.Programs = flag.Args()
	if err := img.WriteFile(*out); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
	fmt.Println(*out)
}
