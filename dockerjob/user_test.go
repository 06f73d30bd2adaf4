package dockerjob_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/dockerjob"
)

// TestAnEngineThatMapsUsers: there a group of a high number could not be mapped, and need not be.
func TestAnEngineThatMapsUsers(t *testing.T) {
	t.Parallel()
	for options, want := range map[string]bool{
		"": false, "name=seccomp,profile=builtin name=cgroupns": false, "name=seccomp,profile=builtin name=userns": true, "name=rootless name=cgroupns": true,
	} {
		dir, err := os.MkdirTemp("", "engine")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "s"))
		if err != nil {
			t.Fatal(err)
		}
		s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Api-Version", "1.51")
			if strings.HasSuffix(r.URL.Path, "/info") {
				_ = json.NewEncoder(w).Encode(map[string]any{"SecurityOptions": strings.Fields(options)})
			}
		})}}
		s.Start()
		defer s.Close()
		engine, err := dockerjob.NewEngine("unix://" + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer engine.Close()
		if got, err := engine.Remapped(t.Context()); err != nil || got != want {
			t.Errorf("%q: %v, %v", options, got, err)
		}
	}
}
