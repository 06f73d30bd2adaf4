package dockerjob_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestAnEngineThatMapsUsers: there a group of a high number could not be mapped, and need not be.
func TestAnEngineThatMapsUsers(t *testing.T) {
	t.Parallel()
	for options, want := range map[string]bool{
		"": false, "name=seccomp,profile=builtin name=cgroupns": false, "name=seccomp,profile=builtin name=userns": true, "name=rootless name=cgroupns": true,
	} {
		engine := standIn(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Api-Version", "1.51")
			if strings.HasSuffix(r.URL.Path, "/info") {
				_ = json.NewEncoder(w).Encode(map[string]any{"SecurityOptions": strings.Fields(options)})
			}
		})
		if got, err := engine.Remapped(t.Context()); err != nil || got != want {
			t.Errorf("%q: %v, %v", options, got, err)
		}
	}
}
