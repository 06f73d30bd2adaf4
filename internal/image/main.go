// Program image writes a docker-archive: one tar that `docker load`, `ctr image import` and `skopeo` read. It packs static
// programs into a single layer over nothing (FROM scratch), to be run as uid 65532. No Docker daemon, no base image, no
// clock: the same programs give the same bytes.
//
//	image -arch amd64 -tag lanyard-k8s/lanyard:v0.1.0 -entrypoint /webhook -out lanyard.tar dist/amd64/webhook
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	var img image
	out := flag.String("out", "", "the `file` to write")
	flag.StringVar(&img.arch, "arch", "amd64", "the programs' architecture, in Go's words")
	flag.StringVar(&img.tag, "tag", "", "the image's `name:tag`")
	flag.StringVar(&img.entrypoint, "entrypoint", "", "the program to run, as `/name`")
	flag.Parse()
	img.programs = flag.Args()
	if err := writeFile(*out, img); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
	fmt.Println(*out)
}
