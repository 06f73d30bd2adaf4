//go:build linux

package connector

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
)

func newClient(conn *grpc.ClientConn) healtheventv1.PlatformConnectorClient {
	return healtheventv1.NewPlatformConnectorClient(conn)
}

// refusesToStart runs a connector that must end by itself, and returns what it says.
func (r *running) refusesToStart() string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, shared.program, r.args...)
	cmd.Env = append(os.Environ(), r.env...)
	out, err := cmd.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		r.t.Errorf("started: %v", err)
	}
	if _, err := os.Lstat(r.socket); r.socket != "" && err == nil {
		r.t.Error("the socket appeared")
	}
	// A request that was under way may still be logged after it.
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "connector: ") {
			return strings.TrimSpace(line)
		}
	}
	r.t.Errorf("it ends without a word: %s", out)
	return ""
}

// TestT14OurAudienceIsTheAPIServers: every token in the cluster would be accepted, so the connector does not start.
func TestT14OurAudienceIsTheAPIServers(t *testing.T) {
	h := shared.home(t)
	api := h.token(monitor, nil, "")
	audiences := payloadAudiences(t, api)
	file := t.TempDir() + "/api"
	must(t, os.WriteFile(file, []byte(api), 0o600))
	r := h.prepare(func(p *plan) {
		p.config["AuthAudience"] = audiences[0]
		p.settings = "selfTest: {apiTokenFile: " + file + "}\nsinks: {kubernetes: {enabled: false}}\nSPOOL"
	})
	if last := r.refusesToStart(); !strings.Contains(last, "self-test (a)") || !strings.Contains(last, "choose another AuthAudience") {
		t.Errorf("it says: %s", last)
	}
}

// TestT30WithoutTheRight names the rule that is missing.
func TestT30WithoutTheRight(t *testing.T) {
	h := shared.home(t)
	nobody, err := h.Kubeconfig("system:serviceaccount:lanyard:nobody")
	must(t, err)
	r := h.prepare()
	for i, arg := range r.args {
		if arg == h.kubeconfig {
			r.args[i] = nobody
		}
	}
	if last := r.refusesToStart(); !strings.Contains(last, `needs "create" on "tokenreviews" in "authentication.k8s.io"`) {
		t.Errorf("it says: %s", last)
	}
}

// TestSelfTestWithOwnTokens starts with both tokens as the chart projects them.
func TestSelfTestWithOwnTokens(t *testing.T) {
	h := shared.home(t)
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/ours", []byte(h.token(monitor, nil)+"\n"), 0o600))
	must(t, os.WriteFile(dir+"/api", []byte(h.token(monitor, nil, "")), 0o600))
	r := h.run(func(p *plan) {
		p.settings = "selfTest: {tokenFile: " + dir + "/ours, apiTokenFile: " + dir + "/api}\nsinks: {kubernetes: {enabled: false}}\nSPOOL"
	})
	must(t, r.call("", ""))
}
