package dockerjob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// Engine speaks to a Docker Engine. It agrees on a version of the API at the first call; 1.41 is what it needs, and Docker
// 20.10.24 the Engine that it was tried with.
type Engine struct {
	c *client.Client
}

// errGone: the Engine has no such container, image or volume.
var errGone = errors.New("the Engine has no such thing")

// NewEngine takes the address of an Engine, such as "unix:///var/run/docker.sock", which is what an empty one means. The
// Engine need not be there yet.
func NewEngine(host string) (*Engine, error) {
	if host == "" {
		host = client.DefaultDockerHost
	}
	c, err := client.New(client.WithHost(host))
	if err != nil {
		return nil, fmt.Errorf("address of the Docker Engine: %w", err)
	}
	return &Engine{c: c}, nil
}

// Close gives up idle connections.
func (e *Engine) Close() error { return e.c.Close() }

// Ping says whether the Engine answers, and in a version that can be spoken.
func (e *Engine) Ping(ctx context.Context) error {
	_, err := e.c.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrEngine, err)
}

// kind sorts an error: errGone, the caller's own end, ErrStart for a request that the Engine does not take, or ErrEngine. The cause stays in the chain, for the log.
func kind(err error) error {
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case errdefs.IsNotFound(err):
		return fmt.Errorf("%w: %w", errGone, err)
	case errdefs.IsInvalidArgument(err):
		return fmt.Errorf("%w: %s", ErrStart, oneLine(err.Error()))
	default:
		return fmt.Errorf("%w: %w", ErrEngine, err)
	}
}

// image is what counts of an image.
type image struct {
	id      string
	env     []string
	user    string   // "", or name or number, with ":" and a group's or without
	volumes []string // where it asks for volumes of its own
	command bool     // it says what to run
}

// image looks an image up. Everything after this goes by its id, so that a tag which moves changes nothing.
func (e *Engine) image(ctx context.Context, ref string) (image, error) {
	got, err := e.c.ImageInspect(ctx, ref)
	if err != nil {
		return image{}, kind(err)
	}
	img := image{id: got.ID}
	if got.Config != nil {
		img.env, img.user, img.volumes = got.Config.Env, got.Config.User, slices.Collect(maps.Keys(got.Config.Volumes))
		img.command = len(got.Config.Entrypoint)+len(got.Config.Cmd) > 0
	}
	return img, nil
}

// makeVolume makes a volume that must not exist before. The Engine returns one that exists as if it had just been made, so it
// is asked first, and the answer must bear the labels of this very call.
func (e *Engine) makeVolume(ctx context.Context, name string, labels map[string]string) error {
	switch _, err := e.c.VolumeInspect(ctx, name, client.VolumeInspectOptions{}); {
	case err == nil:
		return ErrForeignVolume
	case !errdefs.IsNotFound(err):
		return kind(err)
	}
	made, err := e.c.VolumeCreate(ctx, client.VolumeCreateOptions{Name: name, Driver: "local", Labels: labels})
	if err != nil {
		return kind(err)
	}
	v := made.Volume
	for key, value := range labels {
		if v.Labels[key] != value {
			return ErrForeignVolume
		}
	}
	if v.Name != name || v.Driver != "local" || len(v.Options) > 0 {
		return ErrForeignVolume
	}
	return nil
}

// ErrForeignVolume is the error of a job whose volume's name is taken by a volume that is not ours.
var ErrForeignVolume = errors.New("a volume of the job's name exists already and is not the platform's; an admin should look at it")

// removeVolume removes a volume; that it is gone is no error.
func (e *Engine) removeVolume(ctx context.Context, name string) error {
	_, err := e.c.VolumeRemove(ctx, name, client.VolumeRemoveOptions{})
	if err = kind(err); errors.Is(err, errGone) {
		return nil
	}
	return err
}

// create creates a container and returns its id.
func (e *Engine) create(ctx context.Context, o client.ContainerCreateOptions) (string, error) {
	made, err := e.c.ContainerCreate(ctx, o)
	return made.ID, kind(err)
}

// put unpacks a tar in a directory of a container that does not run.
func (e *Engine) put(ctx context.Context, id, dir string, content io.Reader) error {
	_, err := e.c.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: dir, Content: content})
	return kind(err)
}

// stat looks at a file in a container, running or not.
func (e *Engine) stat(ctx context.Context, id, path string) (container.PathStat, error) {
	got, err := e.c.ContainerStatPath(ctx, id, client.ContainerStatPathOptions{Path: path})
	return got.Stat, kind(err)
}

// start starts a container. What the Engine says of a container that it cannot start is for its submitter: the command is not
// in the image, for instance.
func (e *Engine) start(ctx context.Context, id string) error {
	_, err := e.c.ContainerStart(ctx, id, client.ContainerStartOptions{})
	switch {
	case err == nil || client.IsErrConnectionFailed(err):
		return kind(err)
	case ctx.Err() != nil:
		return kind(ctx.Err()) // and not what the Engine said to that: it may quote the command
	}
	return fmt.Errorf("%w: %s", ErrStart, oneLine(err.Error()))
}

// oneLine makes a short line of the Engine's words.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "..."
	}
	return s
}

// stop asks a container to end, and ends it after the grace period.
func (e *Engine) stop(ctx context.Context, id string, grace time.Duration) error {
	seconds := int(grace.Round(time.Second) / time.Second)
	_, err := e.c.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &seconds})
	return kind(err)
}

// remove ends a container and removes it with the anonymous volumes that its image asks for; that it is gone is no error.
func (e *Engine) remove(ctx context.Context, id string) error {
	_, err := e.c.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err = kind(err); errors.Is(err, errGone) || errdefs.IsConflict(err) && strings.Contains(err.Error(), "already in progress") {
		return nil
	}
	return err
}

// standing is how a container stands.
type standing struct {
	runs     bool
	exitCode int
	oom      bool
	image    string // as the label says; for people
}

// inspect looks at a container.
func (e *Engine) inspect(ctx context.Context, id string) (standing, error) {
	got, err := e.c.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return standing{}, kind(err)
	}
	c := got.Container
	if c.State == nil {
		return standing{}, fmt.Errorf("%w: a container without a state", ErrEngine)
	}
	s := standing{runs: c.State.Running, exitCode: c.State.ExitCode, oom: c.State.OOMKilled, image: c.Image}
	if c.Config != nil && c.Config.Labels[labelImage] != "" {
		s.image = c.Config.Labels[labelImage]
	}
	return s, nil
}

// labelled is a container or a volume that bears our labels, which proves nothing.
type labelled struct {
	id    string // a volume's is its name
	row   string
	image string // as the label says; for people
	runs  bool
	ended bool // it has run, and does no more: it is not started again
}

// ours says whether what bears our labels has the name, too, that we would have given it. Images made of a job's container inherit the
// labels, and so does whatever is started from them; that is not ours to remove.
func ours(row string, names []string, name func(id string) []string) bool {
	if !delegation.ValidName(row) || !strings.HasPrefix(row, rowPrefix) {
		return false
	}
	return slices.ContainsFunc(name(shortID(row)), func(n string) bool {
		return slices.ContainsFunc(names, func(got string) bool { return strings.HasSuffix(got, n) })
	})
}

// containers lists all containers of an instance, whether they run or not.
func (e *Engine) containers(ctx context.Context, instance string) ([]labelled, error) {
	got, err := e.c.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", labelInstance+"="+instance)})
	if err != nil {
		return nil, kind(err)
	}
	var all []labelled
	for _, c := range got.Items {
		if !ours(c.Labels[labelRow], c.Names, func(id string) []string { return []string{"/" + workerName(id), "/" + writerName(id)} }) {
			continue
		}
		all = append(all, labelled{
			id: c.ID, row: c.Labels[labelRow], image: c.Labels[labelImage],
			runs:  c.State == container.StateRunning || c.State == container.StatePaused,
			ended: c.State == container.StateExited || c.State == container.StateDead,
		})
	}
	return all, nil
}

// volumes lists all volumes of an instance.
func (e *Engine) volumes(ctx context.Context, instance string) ([]labelled, error) {
	got, err := e.c.VolumeList(ctx, client.VolumeListOptions{Filters: client.Filters{}.Add("label", labelInstance+"="+instance)})
	if err != nil {
		return nil, kind(err)
	}
	var all []labelled
	for _, v := range got.Items {
		if !strings.HasPrefix(v.Name, volumePrefix) || !ours(v.Labels[labelRow], []string{v.Name}, func(id string) []string { return []string{"-" + id} }) {
			continue
		}
		all = append(all, labelled{id: v.Name, row: v.Labels[labelRow]})
	}
	return all, nil
}

// ends sends the ids of an instance's containers that have ended or are gone, until ctx ends or the Engine does: then the error.
func (e *Engine) ends(ctx context.Context, instance string) (<-chan string, <-chan error) {
	events := e.c.Events(ctx, client.EventsListOptions{Filters: client.Filters{}.
		Add("type", "container").Add("event", "die", "destroy").Add("label", labelInstance+"="+instance)})
	ids, failed := make(chan string), make(chan error, 1)
	go func() {
		for {
			select {
			case m := <-events.Messages:
				select {
				case ids <- m.Actor.ID:
				case <-ctx.Done():
				}
			case err := <-events.Err:
				if err == nil {
					err = io.EOF
				}
				failed <- kind(err)
				return
			}
		}
	}()
	return ids, failed
}

// logs opens a container's output, the streams folded into one as the Engine does.
func (e *Engine) logs(ctx context.Context, id string, follow bool, tail int) (io.ReadCloser, error) {
	o := client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Follow: follow}
	if tail > 0 {
		o.Tail = fmt.Sprint(tail)
	}
	got, err := e.c.ContainerLogs(ctx, id, o)
	return got, kind(err)
}

// proofMount mounts a job's volume. NoCopy keeps what the image has at that place out of it.
func proofMount(volume, target string, readOnly bool) mount.Mount {
	return mount.Mount{Type: mount.TypeVolume, Source: volume, Target: target, ReadOnly: readOnly, VolumeOptions: &mount.VolumeOptions{NoCopy: true}}
}
