package containers

import (
	"archive/tar"
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/test/docker"
)

// TestAJobSpeaksForItsSubmitter: the SDK in a container finds the proof, reaches the exchange on the bridge over HTTPS with the CA that lies
// beside it, and gets a token for the submitter, in which the container is the actor. A job that asks at once, before its row is
// active, is made to wait and not refused.
func TestAJobSpeaksForItsSubmitter(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	got := parse(t, h.said(h.submit("whoami", "whoami")))
	if got.Subject != alice || got.Issuer != issuer || got.Audience != wire.DefaultWorkloadAudience || !strings.HasPrefix(got.Actor.Subject, "docker-") {
		t.Errorf("the token says %+v", got)
	}
	if h.api.asked.Load() != 0 {
		t.Error("TokenReview takes no part in containers' proofs")
	}
}

// TestACopiedProof carries a job's proof to another container. It works there too, as is documented, for as long as the job runs; once
// that has ended it is refused. Sent as a JWT it is refused at once, and no row is looked up.
func TestACopiedProof(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	j := h.submit("owner", "wait")
	proof := h.proof(j.ID)
	row, err := delegation.ParseProof(proof)
	must(t, err)
	if got := parse(t, h.elsewhere(j.ID)); got.Subject != alice || got.Actor.Subject != row.Name {
		t.Errorf("from elsewhere the token says %+v", got)
	}
	before := h.rows.reads.Load()
	if status, code := h.post(proof, wire.TokenTypeJWT); status != 400 || code != "invalid_request" {
		t.Errorf("sent as a JWT: %d %s", status, code)
	}
	if h.rows.reads.Load() != before || h.api.asked.Load() != 0 {
		t.Error("a proof that was sent as a JWT was looked into")
	}
	if status, code := h.post(proof, wire.TokenTypeDockerProof); status != 200 {
		t.Errorf("sent as what it is: %d %s", status, code)
	}
	if _, err := h.backend.Stop(t.Context(), alice, j.ID, time.Minute); err != nil {
		t.Fatal(err)
	}
	if status, code := h.post(proof, wire.TokenTypeDockerProof); status != 400 || code != "invalid_request" {
		t.Errorf("after the end: %d %s", status, code)
	}
}

// proof reads a job's proof.
func (h *house) proof(id string) string {
	h.t.Helper()
	c, err := h.engine.Client()
	must(h.t, err)
	defer c.Close()
	got, err := c.CopyFromContainer(h.t.Context(), "lanyard-"+id, client.CopyFromContainerOptions{SourcePath: wire.DefaultJobMountPath + "/token"})
	must(h.t, err)
	defer got.Content.Close()
	files := tar.NewReader(got.Content)
	_, err = files.Next()
	must(h.t, err)
	b, err := io.ReadAll(files)
	must(h.t, err)
	return string(b)
}

// elsewhere exchanges a job's proof in a container that is not the backend's, and has the job's volume mounted.
func (h *house) elsewhere(id string) string {
	t := h.t
	t.Helper()
	c, err := h.engine.Client()
	must(t, err)
	defer c.Close()
	job, err := c.ContainerInspect(t.Context(), "lanyard-"+id, client.ContainerInspectOptions{})
	must(t, err)
	made, err := c.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Config: &container.Config{Image: docker.ProbeImage, Cmd: []string{"exchange", "/stolen/token"}, Env: []string{
			wire.EnvSubjectTokenFile + "=/stolen/token", wire.EnvBaseURL + "=" + h.base(), wire.EnvCAFile + "=/stolen/ca.crt",
		}},
		HostConfig: &container.HostConfig{Binds: []string{job.Container.Mounts[0].Name + ":/stolen:ro"}, ExtraHosts: []string{host + ":host-gateway"}},
	})
	must(t, err)
	waiting := c.ContainerWait(t.Context(), made.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	_, err = c.ContainerStart(t.Context(), made.ID, client.ContainerStartOptions{})
	must(t, err)
	select {
	case <-waiting.Result:
	case err := <-waiting.Error:
		t.Fatal(err)
	}
	logs, err := c.ContainerLogs(t.Context(), made.ID, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true})
	must(t, err)
	defer logs.Close()
	var said bytes.Buffer
	_, err = stdcopy.StdCopy(&said, &said, logs)
	must(t, err)
	_, err = c.ContainerRemove(t.Context(), made.ID, client.ContainerRemoveOptions{Force: true})
	must(t, err)
	return said.String()
}
