package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/certs"
	"github.com/lanyard-k8s/lanyard/client"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"connector": main})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			for _, name := range []string{"PORT", "METRICS"} {
				port, err := freePort()
				if err != nil {
					return err
				}
				e.Setenv(name, strconv.Itoa(port))
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": status, "ready": ready, "get": get, "publish": publish, "expand": expand, "certificate": certificate,
		},
	})
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// status runs a command that must end with the given code.
func status(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != want {
		ts.Fatalf("got %v, want exit code %d", err, want)
	}
}

// expand writes the script's directory into a file where it says $WORK.
func expand(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	text := strings.ReplaceAll(ts.ReadFile(args[0]), "$WORK", ts.Getenv("WORK"))
	ts.Check(os.WriteFile(path, []byte(text), 0o600))
}

// certificate writes a self-signed pair into a directory.
func certificate(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	pair, err := certs.SelfSigned(time.Now(), "127.0.0.1")
	ts.Check(err)
	ts.Check(pair.Write(dir))
}

// ready asks until the answer is 200.
func ready(ts *testscript.TestScript, _ bool, args []string) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	last := "never asked"
	for range 1500 {
		code, body, err := fetch(args[0])
		if code == http.StatusOK {
			return
		}
		last = fmt.Sprintf("%d %s %v", code, body, err)
		<-tick.C
	}
	ts.Fatalf("%s: %s", args[0], last)
}

func get(ts *testscript.TestScript, _ bool, args []string) {
	code, body, err := fetch(args[0])
	if err != nil || code != http.StatusOK {
		ts.Fatalf("%s: %d %v", args[0], code, err)
	}
	_, err = ts.Stdout().Write(body)
	ts.Check(err)
}

func fetch(url string) (int, []byte, error) {
	resp, err := http.Get(url)
	if err != nil {
		return 0, nil, err
	}
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, body, errors.Join(err, resp.Body.Close())
}

// publish reports one event about a node over a socket.
func publish(ts *testscript.TestScript, neg bool, args []string) {
	p, err := client.NewPublisher(client.Options{
		Target: "unix://" + filepath.Clean(ts.MkAbs(args[0])), ServerUser: client.AnyUser, AllowWritableDirectory: true,
	})
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err = p.Publish(ctx, &healtheventv1.HealthEvents{Version: 1, Events: []*healtheventv1.HealthEvent{{CheckName: "GpuXidError", IsFatal: true, NodeName: args[1]}}})
	err = errors.Join(err, p.Close(ctx))
	if neg && err == nil {
		ts.Fatalf("was accepted")
	}
	if !neg {
		ts.Check(err)
	}
}
