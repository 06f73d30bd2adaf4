//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes"
)

// followInterval is how often up looks for news.
const followInterval = 100 * time.Millisecond

// up starts a process that holds the cluster, shows what it says until the cluster is ready, and leaves it running.
func up() error {
	release, err := alone()
	if err != nil {
		return err
	}
	defer release()
	if a, err := ask(request{Do: "status"}); err == nil {
		explain(a)
		return nil
	}
	log, err := os.OpenFile(path("log"), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	holder := exec.Command(self, "hold")
	holder.Stdout, holder.Stderr = log, log
	holder.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := holder.Start(); err != nil {
		return err
	}
	a, err := follow(holder)
	if err != nil {
		return err
	}
	explain(a)
	return nil
}

// follow shows the holder's log until it answers or has ended. An interrupt ends the holder, too.
func follow(holder *exec.Cmd) (answer, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	forget := context.AfterFunc(ctx, func() { _ = holder.Process.Signal(syscall.SIGTERM) })
	defer forget() // before stop, which ends ctx
	log, err := os.Open(path("log"))
	if err != nil {
		return answer{}, errors.Join(err, holder.Process.Kill())
	}
	defer log.Close()
	ended := make(chan error, 1)
	go func() { ended <- holder.Wait() }()
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	for {
		_, _ = io.Copy(os.Stdout, log)
		select {
		case err := <-ended:
			_, _ = io.Copy(os.Stdout, log)
			return answer{}, fmt.Errorf("it did not start: %w", err)
		case <-tick.C:
		}
		if a, err := ask(request{Do: "status"}); err == nil && ctx.Err() == nil {
			_, _ = io.Copy(os.Stdout, log)
			return a, nil
		}
	}
}

// explain says how to use the cluster.
func explain(a answer) {
	fmt.Printf(`
A Kubernetes with two nodes, node1 and node2, is running, with cert-manager and one volume of 1 GiB. To use it:

    export KUBECONFIG=%s
    export PATH=%s:$PATH     # kubectl, helm
    kubectl get nodes

make cluster-load IMAGE=dist/lanyard-amd64.tar loads an image (imagePullPolicy IfNotPresent); make cluster-down ends it.
`, a.Kubeconfig, a.Bin)
}

// load loads images.
func load(paths []string) error {
	if len(paths) == 0 || paths[0] == "" {
		return errors.New("no image given, as in make cluster-load IMAGE=dist/lanyard-amd64.tar")
	}
	for i := range paths {
		var err error
		if paths[i], err = filepath.Abs(paths[i]); err != nil {
			return err
		}
	}
	if _, err := ask(request{Do: "load", Paths: paths}); err != nil {
		return err
	}
	fmt.Println("loaded into node1 and node2")
	return nil
}

// down ends the cluster, if one is running, and clears away what killed ones left behind.
func down() error {
	release, err := alone()
	if err != nil {
		return err
	}
	defer release()
	_, err = ask(request{Do: "stop"})
	switch {
	case errors.Is(err, errNotRunning):
		fmt.Println("no cluster is running")
	case err != nil:
		return err
	default:
		fmt.Println("the cluster is gone")
	}
	if os.Getuid() != 0 {
		return nil // then there was none
	}
	return nodes.Sweep()
}
