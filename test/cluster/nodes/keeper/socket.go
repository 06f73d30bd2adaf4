//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/lanyard-k8s/lanyard/test/cluster/filelock"
	"github.com/lanyard-k8s/lanyard/test/cluster/rundir"
)

// request is what the process in the background is asked to do: status, load or stop.
type request struct {
	Do    string
	Paths []string
}

// answer says how that went; status fills the rest.
type answer struct {
	Error      string
	Kubeconfig string
	Bin        string
}

// path returns the path of one of the keeper's own files, which are the user's alone.
func path(name string) string { return filepath.Join(rundir.Base(), "kept."+name) }

// askTimeout bounds how long an answer may take, which is longest for a large image.
const askTimeout = 10 * time.Minute

// errNotRunning says that no cluster is kept.
var errNotRunning = errors.New("no cluster is running; `make cluster-up` starts one")

// ask has the process in the background do something.
func ask(r request) (answer, error) {
	c, err := net.Dial("unix", path("sock"))
	if err != nil {
		return answer{}, errNotRunning
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(askTimeout))
	if err := json.NewEncoder(c).Encode(r); err != nil {
		return answer{}, err
	}
	var a answer
	if err := json.NewDecoder(c).Decode(&a); err != nil {
		return answer{}, fmt.Errorf("the cluster did not answer: %w", err)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

// alone waits until no other call of up or down is going on, and returns what ends that state.
func alone() (func(), error) {
	if err := os.MkdirAll(rundir.Base(), 0o700); err != nil {
		return nil, err
	}
	f, err := filelock.Wait(path("lock"))
	if err != nil {
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}
