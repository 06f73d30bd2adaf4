package socket_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lanyard-k8s/lanyard/dockerjob/socket"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestListenMakesADirectoryForTheGroup(t *testing.T) {
	t.Parallel()
	path := filepath.Join(short(t), "run", "submit.sock")
	l, err := socket.Listen(t.Context(), path, os.Getegid())
	must(t, err)
	defer l.Close()
	if got := l.Addr().String(); got != path {
		t.Errorf("its address is %s, want %s", got, path)
	}
	for name, want := range map[string]fs.FileMode{filepath.Dir(path): fs.ModeDir | 0o750, path: fs.ModeSocket | 0o660} {
		info, err := os.Lstat(name)
		must(t, err)
		if info.Mode() != want || int(info.Sys().(*syscall.Stat_t).Gid) != os.Getegid() {
			t.Errorf("%s: %v", name, info.Mode())
		}
	}
	if _, err := socket.Listen(t.Context(), path, -1); err == nil || !strings.Contains(err.Error(), "another process listens on it") {
		t.Errorf("a second one: %v", err)
	}
	must(t, l.Close())
	again, err := socket.Listen(t.Context(), path, -1) // what a killed process leaves behind is in nobody's way
	must(t, err)
	must(t, again.Close())
}

func TestListenRefusesWhatIsNotSafe(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		make  func(t *testing.T, dir string)
		group int
		want  string
	}{
		"others may write":      {mode(0o757), -1, "has mode 0757; nobody but its owner may write to it"},
		"others may enter":      {mode(0o751), -1, "others may not enter: chmod 0750"},
		"the group may write":   {mode(0o770), -1, "has mode 0770"},
		"another group's":       {mode(0o750), os.Getegid() + 1, "chgrp"},
		"a file":                {func(t *testing.T, dir string) { must(t, os.WriteFile(dir, nil, 0o600)) }, -1, "is no directory"},
		"a symbolic link":       {func(t *testing.T, dir string) { must(t, os.Symlink(t.TempDir(), dir)) }, -1, "is a symbolic link"},
		"below others' folders": {func(t *testing.T, dir string) { must(t, os.Chmod(filepath.Dir(dir), 0o777)) }, -1, "which others may write to"},
		"below others' folders, through a link": {func(t *testing.T, dir string) {
			open := filepath.Join(t.TempDir(), "open")
			must(t, os.Mkdir(open, 0o700))
			must(t, os.Chmod(open, 0o777))
			must(t, os.Mkdir(filepath.Join(open, "kept"), 0o755))
			must(t, os.Symlink(filepath.Join(open, "kept"), filepath.Join(filepath.Dir(dir), "link")))
		}, -1, "which others may write to"},
		"another user's": {func(t *testing.T, dir string) {
			if os.Geteuid() != 0 {
				t.Skip("SKIPPED: only root can give a directory away")
			}
			must(t, os.Mkdir(dir, 0o750))
			must(t, os.Chown(dir, 12345, -1))
		}, -1, "must belong to root or to this program's user"},
		"a file in the socket's place": {func(t *testing.T, dir string) {
			must(t, os.Mkdir(dir, 0o750))
			must(t, os.WriteFile(filepath.Join(dir, "s"), nil, 0o600))
		}, -1, "there is a file that is no socket"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(short(t), "run")
			tc.make(t, dir)
			if link := filepath.Join(filepath.Dir(dir), "link"); exists(link) {
				dir = filepath.Join(link, "run")
			}
			l, err := socket.Listen(t.Context(), filepath.Join(dir, "s"), tc.group)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if err == nil {
				_ = l.Close()
			}
		})
	}
	if _, err := socket.Listen(t.Context(), "/"+strings.Repeat("x", 120), -1); err == nil || !strings.Contains(err.Error(), "the kernel takes 107") {
		t.Errorf("a long path: %v", err)
	}
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

func mode(m fs.FileMode) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		must(t, os.Mkdir(dir, m))
		must(t, os.Chmod(dir, m))
	}
}

// short is a directory of a test's own whose path leaves room for a socket's.
func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lanyard-s-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	return dir
}

// listen is a socket for a test.
func listen(t *testing.T) (*socket.Listener, string) {
	t.Helper()
	path := filepath.Join(short(t), "run", "s")
	l, err := socket.Listen(t.Context(), path, -1)
	must(t, err)
	return l, path
}

// TestTheLogNamesTheSocket: not the name that it had while it was made.
func TestTheLogNamesTheSocket(t *testing.T) {
	t.Parallel()
	d := serve(t, &fake{}, nil)
	d.ask("GET", "/v1/jobs", "") // it serves
	if !strings.Contains(d.log.String(), `"users may submit","socket":"`+d.path+`"`) {
		t.Errorf("the log does not name %s:\n%s", d.path, d.log)
	}
}
