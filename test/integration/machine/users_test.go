//go:build linux

package machine

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/test/timing"
)

// TestUsersSeeTheirOwnJobsAlone: another user's job cannot be seen, read, waited for or stopped, whatever it is called by.
func TestUsersSeeTheirOwnJobsAlone(t *testing.T) {
	t.Parallel()
	h := shared.house(t, "")
	code, out := h.as(alice, "run", "--image", "lanyard.test/probe:1", "--job", "secret", "--detach", "--", "say", "for alice alone", "wait")
	id := strings.TrimSpace(out)
	if code != 0 || len(id) != 12 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	for _, ref := range []string{id, "default/secret/main", "secret"} {
		for _, verb := range []string{"logs", "stop", "wait"} {
			if code, out := h.as(bob, "jobs", verb, ref); code != 1 || strings.Contains(out, "alice") || !strings.Contains(out, "no") {
				t.Errorf("bob: %s %s: %d %s", verb, ref, code, out)
			}
		}
	}
	if found := h.list(bob); len(found) != 0 {
		t.Errorf("bob sees %+v", found)
	}
	if found := h.list(alice); len(found) != 1 || found[0].ID != id || found[0].State != "running" {
		t.Errorf("alice sees %+v", found)
	}
	// The same name is nobody's: bob may have a job that is called so too.
	if code, out := h.as(bob, "run", "--image", "lanyard.test/probe:1", "--job", "secret", "--", "say", "for bob"); code != 0 || out != "for bob\n" {
		t.Errorf("bob's own: %d %s", code, out)
	}
	if code, out := h.as(alice, "run", "--image", "lanyard.test/probe:1", "--job", "secret", "--", "say", "x"); code != 125 || !strings.Contains(out, "runs already") {
		t.Errorf("a second one of alice's: %d %s", code, out)
	}
	if code, out := h.as(alice, "jobs", "logs", id); code != 0 || out != "for alice alone\n" {
		t.Errorf("alice reads: %d %q", code, out)
	}
	if code, out := h.as(alice, "jobs", "stop", "default/secret/main"); code != 0 {
		t.Errorf("alice stops: %d %s", code, out)
	}
}

// TestWhoMayNotSubmit: nobody, root, strangers to the list, and strangers to the group, each with a sentence.
func TestWhoMayNotSubmit(t *testing.T) {
	t.Parallel()
	h := shared.house(t, "")
	for name, tc := range map[string]struct {
		uid, gid uint32
		want     string
	}{
		"nobody":                         {65534, group, "nobody's own"},
		"root":                           {0, 0, "root submits no jobs"},
		"a user who is not listed":       {carol, group, "user 20003 may not submit: an operator can list it in docker.submitters"},
		"a user who is not in the group": {alice, 20009, "you may not submit jobs here: an operator can add you to the group of"},
	} {
		cmd := h.user(tc.uid, "run", "--image", plainImage)
		cmd.SysProcAttr.Credential.Gid = tc.gid
		out, err := cmd.CombinedOutput()
		if code := exitCode(t, err); code != 125 || !strings.Contains(string(out), tc.want) || strings.Count(string(out), "\n") != 1 {
			t.Errorf("%s: %d %s", name, code, out)
		}
	}
	if containers, volumes := h.traces(); len(containers)+len(volumes) != 0 {
		t.Errorf("something was made: %v %v", containers, volumes)
	}
}

// TestUsersByTheirNames: with a prefix, whoever is in the group submits under the machine's name and his own; root does if it is listed.
func TestUsersByTheirNames(t *testing.T) {
	t.Parallel()
	h := shared.house(t, "  userPrefix: \"unix:build-1:\"\n")
	h.alsoRoot()
	for uid, want := range map[uint32]string{0: "root@build-1", 1: "unix:build-1:daemon", alice: "alice@example.com"} {
		code, out := h.as(uid, "run", "--image", plainImage, "--", "exchange", "docker")
		if code != 0 {
			t.Errorf("%s: %d %s", want, code, out)
			continue
		}
		if c := claims(t, out); c["sub"] != want {
			t.Errorf("got %v, want %s", c["sub"], want)
		}
	}
	if code, out := h.as(carol, "jobs", "list"); code != 1 || !strings.Contains(out, "has no name in /etc/passwd") {
		t.Errorf("a user without a name: %d %s", code, out)
	}
	if code, out := h.as(65534, "jobs", "list"); code != 1 || !strings.Contains(out, "nobody's own") {
		t.Errorf("nobody: %d %s", code, out)
	}
}

// TestReservedNamesAreRefusedByTheServer: a client of one's own does not get them in either.
func TestReservedNamesAreRefusedByTheServer(t *testing.T) {
	t.Parallel()
	h := shared.house(t, "")
	h.alsoRoot()
	c := h.submitter()
	for _, name := range []string{"NMP_PRINCIPAL", "NEMO_WORKLOAD_TOKEN", "NEMO_WORKLOAD_TOKEN_FILE", "NMP_WORKLOAD_IDENTITY_TOKEN_FILE", "NMP_BASE_URL", "nmp_principal"} {
		body := fmt.Sprintf(`{"workspace":"w","job":"j","task":"t","image":%q,"env":[{"name":"A","value":"1"},{"name":%q,"value":%q}]}`, plainImage, name, marked)
		status, raw, err := c.ask(t.Context(), http.MethodPost, "/v1/jobs", body)
		must(t, err)
		if got := string(raw); status != http.StatusBadRequest || !strings.Contains(got, `"field":"env[1].name"`) || strings.Contains(got, marked) {
			t.Errorf("%s: %d %s", name, status, got)
		}
	}
	if containers, volumes := h.traces(); len(containers)+len(volumes) != 0 {
		t.Errorf("something was made: %v %v", containers, volumes)
	}
}

// TestAJobsEnvironment: what a user sets arrives, and what the platform sets stands.
func TestAJobsEnvironment(t *testing.T) {
	t.Parallel()
	h := shared.house(t, "")
	cmd := h.user(alice, "run", "--image", "lanyard.test/probe:1", "--env", "A="+marked, "--env", "HERE", "--env-file", "-", "--cpu", "500m", "--memory", "64Mi", "--",
		"env", "A", "env", "HERE", "env", "B", "env", "NMP_BASE_URL", "env", "NMP_PRINCIPAL", "complain", "to stderr")
	cmd.Env = append(cmd.Env, "HERE=from here")
	cmd.Stdin = strings.NewReader("# comment\nB=two words\n")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if code := exitCode(t, cmd.Run()); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	want := marked + "\nfrom here\ntwo words\nhttps://exchange.lanyard.internal:" + h.port + "\n"
	if !strings.HasPrefix(out.String(), want) || errs.String() != "to stderr\n" {
		t.Errorf("stdout %q, stderr %q", out.String(), errs.String())
	}
	if principal := strings.TrimPrefix(out.String(), want); strings.TrimSpace(principal) != "" && strings.TrimSpace(principal) != "(unset)" {
		t.Errorf("NMP_PRINCIPAL is %q", principal)
	}
	for _, code := range []int{0, 1, 7, 255} {
		if got, out := h.as(alice, "run", "--image", plainImage, "--", "exit", fmt.Sprint(code)); got != code {
			t.Errorf("exit code %d, want %d: %s", got, code, out)
		}
	}
	if code, out := h.as(alice, "run", "--image", "lanyard.test/none:1"); code != 125 || !strings.Contains(out, "the image is not on this machine") {
		t.Errorf("no image: %d %s", code, out)
	}
	timing.Within(t, time.Minute, "the last job is gone", func() bool { c, v := h.traces(); return len(c)+len(v) == 0 })
}
