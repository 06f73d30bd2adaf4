//go:build unix

// Package demo runs the demo from its first scene to its last, as a newcomer does.
package demo

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/demo"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

func TestDemo(t *testing.T) {
	var out strings.Builder
	err := demo.Run(t.Context(), demo.Options{Out: &out, Progress: os.Stderr, Exit: true})
	if errors.Is(err, program.ErrNoGo) || errors.Is(err, program.ErrNoModules) {
		t.Skipf("no control plane to show anything on: %v", err)
	}
	if err != nil {
		t.Fatalf("%v; it had shown\n%s", err, out.String())
	}
	for _, want := range []string{
		"PLATFORM_CONNECTOR_TOKEN_PATH=/var/run/secrets/nvsentinel/platform-connector/token",
		"creator of the job (the manifest said bob): alice",
		`"NMP_PRINCIPAL" is set by the platform`,
		`failed calling webhook "job.mutate.lanyard.dev"`,
		"ValidatingAdmissionPolicy 'lanyard-reserved-names'",
		"condition GpuXidError: True GpuXidErrorIsNotHealthy",
		`platform_connector_auth_violations_total{reason="node_claim_mismatch"} 1`,
		"sub: alice",
		"200, X-NMP-Principal-On-Behalf-Of: alice",
		"refused by lanyard-job-pods",
		"401 at the gateway",
		"All 17 scenes went as they should",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the demo never said %q", want)
		}
	}
	if strings.Contains(out.String(), "\x1b[") {
		t.Error("the demo coloured what is no terminal")
	}
}
