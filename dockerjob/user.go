package dockerjob

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/client"
)

// groupApart is the primary group of jobs whose image runs as somebody else than root. A user of the machine whose number is that of
// the image's user could read everything of the job's processes in /proc otherwise, their root directory with the proof among it:
// the kernel asks for the same user and the same group, and nobody on the machine has this one. It lies in a range that nobody assigns.
const groupApart = 2147483001

// maxAccounts bounds /etc/passwd and /etc/group of an image.
const maxAccounts = 1 << 20

// setApart finds whom the job's container runs as: the image's user, with a primary group that nobody else has and the image's own groups
// besides. writer is a container of that image. Root's processes are nobody's but root's, and an Engine that maps users to others has done
// this already.
func (b *Backend) setApart(ctx context.Context, t *task, writer string) error {
	name, group, _ := strings.Cut(t.image.user, ":")
	if name == "" || name == "root" || name == "0" {
		return nil
	}
	if remapped, err := b.engine.remapped(ctx); remapped || err != nil {
		return err
	}
	passwd, err := b.engine.file(ctx, writer, "/etc/passwd")
	if err != nil {
		return fmt.Errorf("read the image's users: %w", err)
	}
	groups, err := b.engine.file(ctx, writer, "/etc/group")
	if err != nil {
		return fmt.Errorf("read the image's groups: %w", err)
	}
	uid, own, ok := account(name, group, passwd, groups)
	if !ok || uid == 0 {
		return nil // nobody, which the Engine will say, or root by another name
	}
	t.user, t.groups = name+":"+strconv.Itoa(groupApart), own
	return nil
}

// account finds a user of an image and the groups that he has there, as the Engine does: by name or number, and with a group that is
// named besides, that one alone.
func account(name, group, passwd, groups string) (uid int, own []string, ok bool) {
	number, err := strconv.Atoi(name)
	uid, ok = number, err == nil
	primary, known := "0", ""
	for line := range strings.Lines(passwd) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 4 || strings.HasPrefix(f[0], "#") {
			continue
		}
		n, err := strconv.Atoi(f[2])
		if err == nil && (f[0] == name || ok && n == number) {
			uid, ok, primary, known = n, true, f[3], f[0]
			break
		}
	}
	if group != "" {
		return uid, []string{group}, ok
	}
	own = []string{primary}
	for line := range strings.Lines(groups) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) > 3 && known != "" && slices.Contains(strings.Split(f[3], ","), known) && !slices.Contains(own, f[2]) {
			own = append(own, f[2])
		}
	}
	return uid, own, ok
}

// remapped says whether users of containers are other users on the machine.
func (e *Engine) remapped(ctx context.Context) (bool, error) {
	got, err := e.c.Info(ctx, client.InfoOptions{})
	if err != nil {
		return false, kind(err)
	}
	return slices.ContainsFunc(got.Info.SecurityOptions, func(s string) bool {
		return strings.HasPrefix(s, "name=userns") || strings.HasPrefix(s, "name=rootless")
	}), nil
}

// file reads a file of a container that does not run, through a link if it is one. One that is not there is empty.
func (e *Engine) file(ctx context.Context, id, name string) (string, error) {
	at, err := e.stat(ctx, id, name)
	if err == nil && at.Mode&fs.ModeSymlink != 0 {
		name = path.Join("/", at.LinkTarget)
		at, err = e.stat(ctx, id, name)
	}
	if errors.Is(err, errGone) || err == nil && !at.Mode.IsRegular() {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	got, err := e.c.CopyFromContainer(ctx, id, client.CopyFromContainerOptions{SourcePath: name})
	if err != nil {
		return "", kind(err)
	}
	defer got.Content.Close()
	files := tar.NewReader(got.Content)
	if _, err := files.Next(); err != nil {
		return "", fmt.Errorf("%w: %w", ErrEngine, err)
	}
	text, err := io.ReadAll(io.LimitReader(files, maxAccounts+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", ErrEngine, err)
	case len(text) > maxAccounts:
		return "", fmt.Errorf("%w: its %s has more than %d bytes", ErrImage, name, maxAccounts)
	default:
		return string(text), nil
	}
}
