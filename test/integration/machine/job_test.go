//go:build linux

package machine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
	"github.com/lanyard-k8s/lanyard/test/docker"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// claims finds the access token's claims among what a job printed.
func claims(t *testing.T, out string) map[string]any {
	t.Helper()
	for line := range strings.Lines(out) {
		var c map[string]any
		if json.Unmarshal([]byte(line), &c) == nil && c["iss"] != nil {
			return c
		}
	}
	t.Fatalf("no claims in %q", out)
	return nil
}

func actor(c map[string]any) string {
	act, _ := c["act"].(map[string]any)
	sub, _ := act["sub"].(string)
	return sub
}

// TestAJobActsForItsSubmitter: what the container was given is enough for a stranger's program and for our SDK to exchange the
// proof; the token is the submitter's, by the row; and afterwards nothing is left.
func TestAJobActsForItsSubmitter(t *testing.T) {
	t.Parallel()
	h := shared.house(t, "")
	code, out := h.as(alice, "run", "--image", plainImage, "--job", "train", "--", "exchange", "docker")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	c := claims(t, out)
	if c["sub"] != "alice@example.com" || c["iss"] != "https://build-1.example" || c["aud"] != "nemo-platform-api" || !delegation.ValidName(actor(c)) ||
		!strings.HasPrefix(actor(c), "docker-") {
		t.Errorf("claims %v", c)
	}
	code, out = h.as(bob, "run", "--image", "lanyard.test/probe:1", "--", "whoami")
	if s := claims(t, out); code != 0 || s["sub"] != "bob@example.com" || actor(s) == actor(c) {
		t.Errorf("our SDK: exit code %d, %v", code, s)
	}
	timing.Within(t, 2*time.Minute, "nothing is left on the Engine", func() bool {
		containers, volumes := h.traces()
		return len(containers)+len(volumes) == 0
	})
	if got := h.row(actor(c)); got["state"] != "REVOKED" || got["reason"] != "container_ended" {
		t.Errorf("the row: %v", got)
	}
	for _, j := range h.list(alice) {
		if j.Job != "train" || j.ExitCode == nil || *j.ExitCode != 0 || strings.Contains(fmt.Sprint(j), actor(c)) {
			t.Errorf("job %+v", j)
		}
	}
}

// row asks the admins' socket for a row.
func (h *house) row(name string) map[string]any {
	h.t.Helper()
	var got map[string]any
	must(h.t, json.Unmarshal(h.admin(http.MethodGet, wire.PathAdminRecords+"/delegation/"+name, ""), &got))
	return got
}

func (h *house) admin(method, path, body string) []byte {
	h.t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", h.dir+"/state/admin.sock")
	}}}
	req, err := http.NewRequestWithContext(h.t.Context(), method, "http://admin"+path, strings.NewReader(body))
	must(h.t, err)
	req.Header.Set("Content-Type", "application/merge-patch+json")
	resp, err := c.Do(req)
	must(h.t, err)
	defer func() { _ = resp.Body.Close() }()
	var b bytes.Buffer
	_, err = b.ReadFrom(resp.Body)
	must(h.t, err)
	return b.Bytes()
}

// exchange posts a subject token at the machine's own address.
func (h *house) exchange(kind, token string) (int, map[string]any) {
	h.t.Helper()
	resp, err := h.client().PostForm("https://127.0.0.1:"+h.port+wire.PathToken, url.Values{
		"grant_type": {wire.GrantTypeTokenExchange}, "client_id": {wire.DefaultJobAudience}, "subject_token_type": {kind}, "subject_token": {token},
	})
	must(h.t, err)
	defer func() { _ = resp.Body.Close() }()
	var body map[string]any
	must(h.t, json.NewDecoder(resp.Body).Decode(&body))
	return resp.StatusCode, body
}

// proof starts a job that waits, and steals its proof.
func (h *house) proof(uid uint32, job string) string {
	h.t.Helper()
	code, out := h.as(uid, "run", "--image", "lanyard.test/probe:1", "--job", job, "--detach", "--", "cat", wire.DefaultJobMountPath+"/token", "wait")
	if code != 0 {
		h.t.Fatalf("exit code %d: %s", code, out)
	}
	var proof string
	timing.Within(h.t, time.Minute, "the job shows its proof", func() bool {
		_, out := h.as(uid, "jobs", "logs", job)
		proof = strings.TrimSpace(out)
		return strings.HasPrefix(proof, "nmp_obo_v1.")
	})
	return proof
}

// TestAProofIsWorthNothingElsewhere: not under another type, not changed, and not after its job's end.
func TestAProofIsWorthNothingElsewhere(t *testing.T) {
	t.Parallel()
	h := shared.house(t, "")
	proof := h.proof(alice, "wait")
	if status, body := h.exchange(wire.TokenTypeDockerProof, proof); status != http.StatusOK {
		t.Fatalf("got %d %v", status, body)
	}
	other := "A"
	if strings.HasSuffix(proof, "A") {
		other = "E"
	}
	const jwt = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9.c2ln"
	for name, tc := range map[string]struct{ kind, token string }{
		"a proof as a JWT":              {wire.TokenTypeJWT, proof},
		"a JWT as a proof":              {wire.TokenTypeDockerProof, jwt},
		"a JWT where there are no pods": {wire.TokenTypeJWT, jwt},
		"another secret":                {wire.TokenTypeDockerProof, proof[:len(proof)-1] + other},
	} {
		if status, body := h.exchange(tc.kind, tc.token); status != http.StatusBadRequest || body["error"] != "invalid_request" {
			t.Errorf("%s: %d %v", name, status, body)
		}
	}
	if code, out := h.as(alice, "jobs", "stop", "wait"); code != 0 || out != "wait\n" {
		t.Fatalf("stop: %d %s", code, out)
	}
	if status, body := h.exchange(wire.TokenTypeDockerProof, proof); status != http.StatusBadRequest || body["error"] != "invalid_request" {
		t.Errorf("after the end: %d %v", status, body)
	}
}

// TestTheContainerTriesTheWrongType: the same from inside.
func TestTheContainerTriesTheWrongType(t *testing.T) {
	t.Parallel()
	h := shared.house(t, "")
	code, out := h.as(alice, "run", "--image", plainImage, "--", "exchange", "jwt", "exchange", "docker")
	if code != 0 || !strings.HasPrefix(out, "400 invalid_request\n") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if c := claims(t, out); c["sub"] != "alice@example.com" {
		t.Errorf("claims %v", c)
	}
}

// TestAnAdminRevokes: by the person, at once, and the job is ended.
func TestAnAdminRevokes(t *testing.T) {
	t.Parallel()
	h := shared.house(t, "")
	proof := h.proof(alice, "wait")
	got := string(h.admin(http.MethodPatch, wire.PathAdminRecords+"/submission?submitter=alice@example.com", `{"revoked": true}`))
	if !strings.Contains(got, `"rows_revoked":1`) {
		t.Fatalf("got %s", got)
	}
	if status, body := h.exchange(wire.TokenTypeDockerProof, proof); status != http.StatusBadRequest {
		t.Errorf("an exchange afterwards: %d %v", status, body)
	}
	code, out := h.as(alice, "jobs", "wait", "wait")
	if code != 125 && code != 137 || !strings.Contains(out, "its identity was revoked") {
		t.Errorf("the job: exit code %d: %s", code, out)
	}
	info, err := os.Stat(h.dir + "/state")
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the state's directory: %v %v", info.Mode(), err)
	}
}

// TestAnEngineWithAnotherIdeaOfTheMachine: "host-gateway-ip" in the Engine's configuration is not where the exchange listens, and jobs reach
// it all the same.
func TestAnEngineWithAnotherIdeaOfTheMachine(t *testing.T) {
	t.Parallel()
	if shared.absent != "" {
		t.Skip("SKIPPED: " + shared.absent)
	}
	e := docker.ForTest(t, docker.Options{HostGatewayIP: "192.0.2.1"})
	tree, err := program.Tree()
	must(t, err)
	dir, err := os.MkdirTemp(shared.dir, "images-")
	must(t, err)
	must(t, load(t.Context(), e, tree, dir))
	h := shared.prepare(t, e, "")
	h.start()
	h.ready()
	code, out := h.as(alice, "run", "--image", plainImage, "--", "exchange", "docker")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	if c := claims(t, out); c["sub"] != "alice@example.com" {
		t.Errorf("claims %v", c)
	}
}
