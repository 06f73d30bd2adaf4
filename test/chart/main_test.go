//go:build unix

package chart

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var update = flag.Bool("update", false, "write the golden files")

// helm is built by the first test that needs it.
var helm = sync.OnceValues(func() (Helm, error) {
	return Find(context.Background(), os.Stderr)
})

// findHelm fails the test if helm cannot be built.
func findHelm(t *testing.T) Helm {
	t.Helper()
	h, err := helm()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// profiles are the value files that the chart is rendered with, by name.
func profiles(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/profiles/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no profiles: %v", err)
	}
	all := map[string]string{}
	for _, f := range files {
		all[strings.TrimSuffix(filepath.Base(f), ".yaml")] = f
	}
	return all
}

// render renders a profile.
func render(t *testing.T, profile string, args ...string) []*unstructured.Unstructured {
	t.Helper()
	out, err := findHelm(t).Template(t.Context(), append([]string{"-f", filepath.Join("testdata/profiles", profile+".yaml")}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := Objects(out)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// find returns the rendered object of a kind and name, or nil.
func find(objects []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	for _, o := range objects {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	return nil
}
