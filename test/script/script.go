// Package script runs the transcripts of the programs in cmd: testdata/script, with free ports, and with commands that several of
// them need.
//
//	status CODE PROGRAM ARGS...  runs a program that must end with the code
//	certificate DIR              writes a self-signed pair for 127.0.0.1 into a directory
//	expand FILE...               writes $WORK and the other names that Params was given into files, where they say so
//	ready URL                    asks until the answer is 200
//	[!] get URL [CA]             prints the status and the page; it must be 200, with ! anything else
package script

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lanyard-k8s/lanyard/certs"
)

// Command is one that a transcript can use.
type Command = func(ts *testscript.TestScript, neg bool, args []string)

// Params say how transcripts are run: with a free port under each name, the values, and commands besides those of this package.
func Params(ports []string, values map[string]string, more map[string]Command) testscript.Params {
	names := append(slices.Clone(ports), slices.Sorted(maps.Keys(values))...)
	commands := map[string]Command{
		"status": status, "certificate": certificate, "ready": ready, "get": get,
		"expand": func(ts *testscript.TestScript, _ bool, args []string) { expand(ts, append(names, "WORK"), args) },
	}
	maps.Copy(commands, more)
	return testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			for _, name := range ports {
				port, err := freePort()
				if err != nil {
					return err
				}
				e.Setenv(name, strconv.Itoa(port))
			}
			for name, value := range values {
				e.Setenv(name, value)
			}
			return nil
		},
		Cmds: commands,
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

func status(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != want {
		ts.Fatalf("got %v, want exit code %d", err, want)
	}
}

func certificate(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	pair, err := certs.SelfSigned(time.Now(), "127.0.0.1")
	ts.Check(err)
	ts.Check(pair.Write(dir))
}

func expand(ts *testscript.TestScript, names, files []string) {
	for _, file := range files {
		text := ts.ReadFile(file)
		for _, name := range names {
			text = strings.ReplaceAll(text, "$"+name, ts.Getenv(name))
		}
		ts.Check(os.WriteFile(ts.MkAbs(file), []byte(text), 0o600))
	}
}

func ready(ts *testscript.TestScript, _ bool, args []string) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	last := "never asked"
	for range 1500 {
		code, body, err := fetch(http.DefaultClient, args[0])
		if code == http.StatusOK {
			return
		}
		last = fmt.Sprintf("%d %s %v", code, body, err)
		<-tick.C
	}
	ts.Fatalf("%s: %s", args[0], last)
}

func get(ts *testscript.TestScript, neg bool, args []string) {
	transport := &http.Transport{DisableKeepAlives: true}
	if len(args) > 1 {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(ts.ReadFile(args[1]))) {
			ts.Fatalf("%s: no certificate", args[1])
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	code, body, err := fetch(&http.Client{Transport: transport}, args[0])
	if err != nil {
		ts.Fatalf("%s: %v", args[0], err)
	}
	if ok := code == http.StatusOK; ok == neg {
		ts.Fatalf("%s: status %d", args[0], code)
	}
	_, err = fmt.Fprintf(ts.Stdout(), "%d\n%s\n", code, body)
	ts.Check(err)
}

func fetch(client *http.Client, url string) (int, []byte, error) {
	resp, err := client.Get(url)
	if err != nil {
		return 0, nil, err
	}
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, body, errors.Join(err, resp.Body.Close())
}
