// Program probe is what tests run in pods to see what a pod sees. It is one static file, so that it is an image by itself:
//
//	probe                   sleeps until it is told to end
//	probe serve :8080       answers every request over HTTP with the host's name
//	probe get URL           prints the answer to a request
//	probe lookup NAME       prints the addresses of a name
//	probe cat FILE          prints a file
//	probe write FILE TEXT   writes a file
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// timeout bounds everything that asks somebody.
const timeout = 5 * time.Second

func main() {
	command := strings.Join(os.Args[1:min(2, len(os.Args))], "")
	if err := run(command, os.Args[min(2, len(os.Args)):]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(command string, args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	switch {
	case command == "":
		wait()
		return nil
	case command == "serve" && len(args) == 1:
		return serve(args[0])
	case command == "get" && len(args) == 1:
		return get(ctx, args[0])
	case command == "lookup" && len(args) == 1:
		addresses, err := net.DefaultResolver.LookupHost(ctx, args[0])
		fmt.Println(strings.Join(addresses, "\n"))
		return err
	case command == "cat" && len(args) == 1:
		content, err := os.ReadFile(args[0])
		_, _ = os.Stdout.Write(content)
		return err
	case command == "write" && len(args) == 2:
		return os.WriteFile(args[0], []byte(args[1]), 0o644)
	default:
		return fmt.Errorf("no command %q with %d arguments", command, len(args))
	}
}

// wait waits to be told to end, which as process 1 of a container it has to ask for.
func wait() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	<-signals
}

func serve(address string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	server := &http.Server{
		Addr: address, ReadHeaderTimeout: timeout,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, name) }),
	}
	go func() {
		wait()
		_ = server.Close()
	}()
	return server.ListenAndServe()
}

func get(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}
