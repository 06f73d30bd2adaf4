package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"
)

// echoLine is a request as the model behind a gateway has received it.
type echoLine struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Pod     string            `json:"pod"`
}

// runServe stands in for a model or a service: it answers every request with what it has received, as JSON, and prints it. What
// authorises is told by its length alone.
func runServe(ctx context.Context, args []string, p printer) error {
	s := flags("serve")
	listen := s.String("listen", ":8080", "address to listen on")
	dir := s.String("tls-dir", "", "directory with tls.crt and tls.key; empty is plain http")
	code := s.Int("status", http.StatusOK, "the status of every answer")
	if err := parse(s, args); err != nil {
		return err
	}
	return serve(ctx, *listen, *dir, p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line := echoLine{Method: r.Method, Path: r.URL.RequestURI(), Headers: flat(r.Header), Pod: hostname()}
		if r.URL.Path != "/healthz" {
			p.print(line)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(*code)
		_ = json.NewEncoder(w).Encode(line) // a caller who has gone needs no answer
	}))
}

// serve serves until the program is told to stop.
func serve(ctx context.Context, listen, dir string, p printer, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	stopped := context.AfterFunc(ctx, func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(closing) // whoever is not done by then is cut off
	})
	defer stopped()
	p.print(map[string]string{"listening": listener.Addr().String()})
	if dir != "" {
		err = server.ServeTLS(listener, filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	} else {
		err = server.Serve(listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
