package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/lanyard-k8s/lanyard/connector/config"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/internal/liveness"
)

// TestLooksForPodsAreNotHeldToTheWatchesRate: while the watch of pods is silent each review looks for its pod. Neither may that wait for
// the watches' limit, which ends as Unavailable, nor the relist behind the looks: here the limit is one call in three hours.
func TestLooksForPodsAreNotHeldToTheWatchesRate(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/team/pods" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[
			{"metadata":{"namespace":"team","name":"a","uid":"11"}}]}`)
	}))
	defer api.Close()
	p := &parts{
		cluster: &rest.Config{Host: api.URL, QPS: 1e-4, Burst: 1}, log: logr.Discard(),
		cfg: config.Config{Process: config.Process{Role: nodebinding.Deployment}},
	}
	if err := p.makeClients(); err != nil {
		t.Fatal(err)
	}
	if err := p.watch(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range 20 {
		if got, err := p.pods.Look(ctx, "team", "a", "11"); got != liveness.Alive || err != nil {
			t.Fatalf("look %d: %s, %v", i, got, err)
		}
	}
	if p.cluster.QPS <= 0 {
		t.Error("the watches have lost their limit")
	}
}
