//go:build unix

package demo

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/cluster"
)

// broker starts the exchange.
func broker(ctx context.Context, s *stage) error {
	manifest, err := manifests.ReadFile("manifests/exchange.yaml")
	if err != nil {
		return fmt.Errorf("reading the manifest: %w", err)
	}
	if _, err := s.kubectl(ctx, cluster.Admin, manifest, "apply", "-f", "-"); err != nil {
		return err
	}
	if err := s.startExchange(ctx); err != nil {
		return err
	}
	s.tick("exchange ready at " + s.exchange.url + ", with the rights of the chart's service account")
	return nil
}

// onBehalf has the pod of a job of alice's exchange its token, as the SDK in it would.
func onBehalf(ctx context.Context, s *stage) error {
	s.say("# work from before the exchange watched the policies, and ten seconds more, is never confirmed; so alice submits now")
	if err := s.awaitEpoch(ctx); err != nil {
		return err
	}
	if err := s.accepted(ctx, "alice", "job-for-exchange.yaml"); err != nil {
		return err
	}
	pod, err := s.jobPod(ctx, "team-a", "finetune")
	if err != nil {
		return err
	}
	if err := s.bind(ctx, "team-a", pod); err != nil {
		return err
	}
	if s.tokens["finetune"], err = s.kubeletToken(ctx, nodeOne, "team-a", "default", pod, wire.DefaultJobAudience); err != nil {
		return err
	}
	if s.access, err = s.token(ctx); err != nil {
		return err
	}
	claims, err := claimsOf(s.access)
	if err != nil {
		return err
	}
	act, _ := claims["act"].(map[string]any)
	for _, want := range []struct{ what, value string }{{"sub", "alice"}, {"act.sub", "system:serviceaccount:team-a:default"}} {
		got := claims["sub"]
		if want.what == "act.sub" {
			got = act["sub"]
		}
		if got != want.value {
			return fmt.Errorf("the access token's %s is %v, want %s", want.what, got, want.value)
		}
		s.tick(want.what + ": " + want.value)
	}
	return nil
}

// awaitEpoch waits until the exchange has found the policies in order and the time from which it trusts new work has come.
func (s *stage) awaitEpoch(ctx context.Context) error {
	var epoch float64
	err := s.poll(ctx, func() (bool, error) {
		text, err := page(ctx, s.exchange.metrics+"/metrics")
		for line := range strings.Lines(text) {
			if value, ok := strings.CutPrefix(line, "lanyard_exchange_guard_epoch_seconds "); ok {
				if epoch, err = strconv.ParseFloat(strings.TrimSpace(value), 64); err != nil {
					return false, fmt.Errorf("reading the guard epoch: %w", err)
				}
			}
		}
		// A creation time has no fraction of a second, so the second after the epoch's is the first that is surely later.
		return epoch > 0 && strings.Contains(text, `lanyard_exchange_policies{state="in_order"} 1`) && time.Now().After(time.Unix(int64(epoch)+1, 0)), err
	})
	if err != nil {
		return fmt.Errorf("waiting for the guard epoch: %w", err)
	}
	return nil
}

// gateway asks as a gateway does before it lets a request through to a model.
func gateway(ctx context.Context, s *stage) error {
	s.say("gateway$ curl " + s.exchange.url + wire.PathAuthenticate + "/v1/models -H 'Authorization: Bearer ...' -H 'X-NMP-Principal-On-Behalf-Of: bob'")
	status, headers, err := s.authenticate(ctx)
	if err != nil {
		return err
	}
	if got := headers.Get("X-NMP-Principal-On-Behalf-Of"); status != http.StatusOK || got != "alice" {
		return fmt.Errorf("the answer is %d on behalf of %q, want 200 and alice", status, got)
	}
	s.tick("200, X-NMP-Principal-On-Behalf-Of: alice (the client's own header said bob)")
	if status, _, err = s.get(ctx, s.exchange.url+wire.PathAuthenticate+"/v1/models", nil); err != nil {
		return err
	}
	if status != http.StatusUnauthorized {
		return fmt.Errorf("without a token the answer is %d, want 401", status)
	}
	s.tick("without a token: 401")
	return nil
}

// intruder has bob, who may edit the namespace, too, try to act as alice.
func intruder(ctx context.Context, s *stage) error {
	if _, err := s.kubectl(ctx, cluster.Admin, nil, "create", "rolebinding", "bob", "--clusterrole=edit", "--user=bob", "-n", "team-a"); err != nil {
		return err
	}
	if err := s.awaitRights(ctx, "bob", "team-a"); err != nil {
		return err
	}
	pod, err := s.jobPod(ctx, "team-a", "finetune")
	if err != nil {
		return err
	}
	uid, err := s.kubectl(ctx, cluster.Admin, nil, "get", "job", "finetune", "-n", "team-a", "-o", "jsonpath={.metadata.uid}")
	if err != nil {
		return err
	}
	manifest, err := manifests.ReadFile("manifests/forged-pod.yaml")
	if err != nil {
		return fmt.Errorf("reading the manifest: %w", err)
	}
	for _, try := range []struct {
		what, policy string
		stdin        []byte
		args         []string
	}{
		{"a pod that claims to be of alice's job", "lanyard-job-pods", bytes.ReplaceAll(manifest, []byte("@UID@"), []byte(uid)), []string{"create", "-f", "-"}},
		{"another image for alice's pod", "lanyard-managed-pods", nil, []string{"set", "image", "pod/" + pod, "trainer=registry.example/evil:1", "-n", "team-a"}},
		{"a shell in alice's pod", "lanyard-pod-access", nil, []string{"exec", pod, "-n", "team-a", "--", "cat", "/var/run/secrets/nemo-platform/workload/token"}},
		{"a signature in alice's name", "lanyard-creator-stamp", nil, []string{"annotate", "job", "finetune", "-n", "team-a", "--overwrite", "lanyard.dev/created-by=bob"}},
	} {
		s.say("# " + try.what)
		s.say("bob$ kubectl " + strings.Join(try.args, " "))
		if err := s.guarded(ctx, try.policy, try.stdin, try.args); err != nil {
			return err
		}
	}
	return nil
}

// guarded runs what bob tries: a policy refuses it, or, for the stamp, the webhook puts the old one back.
func (s *stage) guarded(ctx context.Context, policy string, stdin []byte, args []string) error {
	answer, err := s.kubectl(ctx, "bob", stdin, args...)
	s.quote(answer)
	if policy == "lanyard-creator-stamp" {
		stamp, err := s.kubectl(ctx, cluster.Admin, nil, "get", "job", "finetune", "-n", "team-a", "-o", `jsonpath={.metadata.annotations.lanyard\.dev/created-by}`)
		if err != nil || stamp != "alice" {
			return errors.Join(fmt.Errorf("the job's creator is now %q", stamp), err)
		}
		s.tick("without effect: the job's creator is still alice")
		return nil
	}
	if err == nil {
		return errors.New("it was accepted and should have been refused")
	}
	if !strings.Contains(answer, policy) {
		return fmt.Errorf("it was refused, but not by %s", policy)
	}
	s.tick("refused by " + policy)
	return nil
}

// revoked revokes the submission as an admin and uses the token once more.
func revoked(ctx context.Context, s *stage) error {
	uid, err := s.kubectl(ctx, cluster.Admin, nil, "get", "job", "finetune", "-n", "team-a", "-o", "jsonpath={.metadata.uid}")
	if err != nil {
		return err
	}
	token, err := s.kubectl(ctx, cluster.Admin, nil, "create", "token", "auditor", "-n", "default", "--audience=lanyard-admin")
	if err != nil {
		return errors.New("no token for the auditor")
	}
	path := wire.PathAdminRecords + "/submission/" + uid
	s.say("auditor$ curl -X PATCH " + s.exchange.admin + path + ` -d '{"revoked": true}'`)
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, s.exchange.admin+path, strings.NewReader(`{"revoked": true}`))
	if err != nil {
		return fmt.Errorf("asking the exchange: %w", err)
	}
	status, _, err := s.do(request, map[string]string{"Authorization": "Bearer " + strings.TrimSpace(token), "Content-Type": "application/json"})
	if err != nil || status != http.StatusOK {
		return errors.Join(fmt.Errorf("the answer is %d, want 200", status), err)
	}
	if status, _, err = s.authenticate(ctx); err != nil || status != http.StatusUnauthorized {
		return errors.Join(fmt.Errorf("the gateway's question is answered with %d, want 401", status), err)
	}
	s.tick("the access token, still valid by its own claims: 401 at the gateway")
	if _, err := s.token(ctx); err == nil {
		return errors.New("the pod was given another access token")
	}
	s.tick("the pod gets no other one")
	return nil
}

// authenticate asks about the access token, with a forged header beside it.
func (s *stage) authenticate(ctx context.Context) (int, http.Header, error) {
	return s.get(ctx, s.exchange.url+wire.PathAuthenticate+"/v1/models", map[string]string{"Authorization": "Bearer " + s.access, "X-NMP-Principal-On-Behalf-Of": "bob"})
}

// token runs `lanyard token` as the job's pod and returns the access token, which is printed nowhere.
func (s *stage) token(ctx context.Context) (string, error) {
	s.say("finetune$ lanyard token > access-token")
	command := exec.CommandContext(ctx, s.programs["lanyard"], "token", "--show", "--timeout=10s")
	command.Env = append(os.Environ(), wire.EnvSubjectTokenFile+"="+s.tokens["finetune"], wire.EnvBaseURL+"="+s.exchange.url, wire.EnvCAFile+"="+s.exchange.ca)
	var out, complaint bytes.Buffer
	command.Stdout, command.Stderr = &out, &complaint
	if err := command.Run(); err != nil {
		s.quote(complaint.String())
		return "", fmt.Errorf("exchanging the token: %w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

// claimsOf reads what a token says without verifying it, to be shown.
func claimsOf(token string) (map[string]any, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errors.New("the access token is no JWT")
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(parts[1])
	if err != nil {
		return nil, errors.New("the access token's claims cannot be decoded")
	}
	claims := map[string]any{}
	if err := json.Unmarshal(raw, &claims); err != nil {
		return nil, errors.New("the access token's claims are no JSON")
	}
	return claims, nil
}
