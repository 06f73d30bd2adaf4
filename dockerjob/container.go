package dockerjob

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"path"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/dockerjob/jobspec"
)

// Labels say what to clean up. No decision about a token or a submitter reads them.
const (
	labelInstance = wire.Prefix + "instance"
	labelRow      = wire.Prefix + "row"
	labelMade     = wire.Prefix + "made" // drawn for each volume: the Engine's answer must bear it
	labelImage    = wire.Prefix + "image"
	labelJob      = wire.Prefix + "job"
)

// fileMode is the mode of the files in the volume. The job may run as any user, and nobody else has the volume mounted.
const fileMode = 0o444

// labels are those of a job's containers and volume.
func (b *Backend) labels(t *task) map[string]string {
	return map[string]string{labelInstance: b.s.Instance, labelRow: t.row, labelImage: t.spec.Image, labelJob: t.spec.Names()}
}

// workerName and writerName name a job's containers.
func workerName(id string) string { return "lanyard-" + id }
func writerName(id string) string { return "lanyard-" + id + "-writer" }

// neverRun is the writer's command, which the Engine asks for though nobody starts it: the image may have none.
const neverRun = "never-run"

// writer is the container through which the proof is written: the job's own image, for there may be no other, without a
// network, and never started.
func (b *Backend) writer(t *task) client.ContainerCreateOptions {
	host := confined()
	host.NetworkMode = "none"
	host.Mounts = []mount.Mount{proofMount(t.volume, b.s.MountPath, false)}
	return client.ContainerCreateOptions{
		Name:       writerName(t.id),
		Config:     &container.Config{Image: t.image.id, Cmd: []string{neverRun}, Labels: b.labels(t), NetworkDisabled: true},
		HostConfig: host,
	}
}

// worker is the job's container.
func (b *Backend) worker(t *task) client.ContainerCreateOptions {
	host := confined()
	host.NetworkMode = container.NetworkMode(b.s.Network)
	host.Mounts = []mount.Mount{proofMount(t.volume, b.s.MountPath, true)}
	host.ExtraHosts = b.hosts(t)
	host.GroupAdd = t.groups
	host.PidsLimit = &b.s.Pids
	host.LogConfig = container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "16m", "max-file": "2"}}
	if cpu := amount(t.spec.CPU, b.s.Limits.DefaultCPU); cpu != nil {
		host.NanoCPUs = cpu.MilliValue() * 1e6
	}
	if memory := amount(t.spec.Memory, b.s.Limits.DefaultMemory); memory != nil {
		host.Memory = memory.Value()
		host.MemorySwap = memory.Value() // no swap besides
	}
	return client.ContainerCreateOptions{
		Name:       workerName(t.id),
		Config:     &container.Config{Image: t.image.id, User: t.user, Cmd: t.spec.Command, Env: b.environment(t), Labels: b.labels(t)},
		HostConfig: host,
	}
}

// confined is what every container of ours is held to. There is no option that loosens it.
func confined() *container.HostConfig {
	return &container.HostConfig{
		CapDrop:       []string{"ALL"},
		SecurityOpt:   []string{"no-new-privileges"},
		IpcMode:       container.IPCModePrivate,
		CgroupnsMode:  container.CgroupnsModePrivate,
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
	}
}

// amount is what was asked for, or the default, or nothing.
func amount(asked, otherwise resource.Quantity) *resource.Quantity {
	switch {
	case !asked.IsZero():
		return &asked
	case !otherwise.IsZero():
		return &otherwise
	default:
		return nil
	}
}

// hostGateway is the address that the Engine takes for the machine: the default bridge's, unless its configuration has another.
const hostGateway = "host-gateway"

// hosts makes the host name of the base URL known in the container: as the address that is served, which the Engine need not know.
func (b *Backend) hosts(t *task) []string {
	u, err := url.Parse(b.s.BaseURL)
	if err != nil {
		return nil // it was checked at the start
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return nil
	}
	if !t.host.IsValid() {
		return []string{u.Hostname() + ":" + hostGateway}
	}
	return []string{u.Hostname() + ":" + t.host.String()}
}

// own are the variables that the platform sets.
func (b *Backend) own() []EnvVar {
	return []EnvVar{
		{Name: wire.EnvSubjectTokenFile, Value: path.Join(b.s.MountPath, wire.TokenFile)},
		{Name: wire.EnvBaseURL, Value: b.s.BaseURL},
		{Name: wire.EnvCAFile, Value: path.Join(b.s.MountPath, wire.CAFile)},
	}
}

// environment is the job's, then the platform's own, then nothing for what the image would set of the platform's. The order
// does not matter: Validate has seen to it that no name stands twice.
func (b *Backend) environment(t *task) []string {
	var env, names []string
	for _, e := range t.spec.Env {
		env = append(env, e.Name+"="+e.Value)
	}
	for _, e := range b.own() {
		env, names = append(env, e.Name+"="+e.Value), append(names, e.Name)
	}
	for _, name := range jobspec.Overrides(t.image.env, names) {
		env = append(env, name+"=")
	}
	return env
}

// archive is what the volume holds: the proof and the CA, for all to read and nobody to write.
func (b *Backend) archive(t *task, p delegation.Proof) (io.Reader, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range []struct {
		name    string
		content []byte
	}{{wire.TokenFile, []byte(p.Token())}, {wire.CAFile, t.ca}} {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: fileMode, Size: int64(len(f.content)), Format: tar.FormatPAX, ModTime: b.now()}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("pack the proof: %w", err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("pack the proof: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack the proof: %w", err)
	}
	return &buf, nil
}
