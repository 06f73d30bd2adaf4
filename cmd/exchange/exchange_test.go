package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lanyard-k8s/lanyard/certs"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"exchange": main})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			for _, name := range []string{"PORT", "ADMIN", "METRICS"} {
				port, err := freePort()
				if err != nil {
					return err
				}
				e.Setenv(name, strconv.Itoa(port))
			}
			e.Setenv("GROUP", strconv.Itoa(os.Getegid()))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": status, "ready": ready, "get": get, "expand": expand, "certificate": certificate,
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

// expand writes the script's directory, port and group into a file where it says $WORK, $PORT and $GROUP.
func expand(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		text := ts.ReadFile(name)
		for _, v := range []string{"WORK", "PORT", "GROUP"} {
			text = strings.ReplaceAll(text, "$"+v, ts.Getenv(v))
		}
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o600))
	}
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
		code, body, err := fetch(http.DefaultClient, args[0])
		if code == http.StatusOK {
			return
		}
		last = fmt.Sprintf("%d %s %v", code, body, err)
		<-tick.C
	}
	ts.Fatalf("%s: %s", args[0], last)
}

// get fetches a page; with a second argument, the CA to trust.
func get(ts *testscript.TestScript, _ bool, args []string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if len(args) > 1 {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(ts.ReadFile(args[1]))) {
			ts.Fatalf("%s: no certificate", args[1])
		}
		client.Transport = &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}}
	}
	code, body, err := fetch(client, args[0])
	if err != nil {
		ts.Fatalf("%s: %v", args[0], err)
	}
	fmt.Fprintf(ts.Stdout(), "%d\n%s\n", code, body)
}

func fetch(client *http.Client, url string) (int, []byte, error) {
	resp, err := client.Get(url)
	if err != nil {
		return 0, nil, err
	}
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, body, errors.Join(err, resp.Body.Close())
}
