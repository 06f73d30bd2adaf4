//go:build unix

package rundir_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/lanyard-k8s/lanyard/test/cluster/rundir"
)

func TestNew(t *testing.T) {
	t.Parallel()
	base := filepath.Join(t.TempDir(), "base")
	mine := newDir(t, base)
	abandoned := newDir(t, base)
	if err := abandoned.Abandon(); err != nil {
		t.Fatal(err)
	}
	if !exists(t, abandoned.Path()) {
		t.Error("an abandoned folder is gone before anybody can look into it")
	}
	next := newDir(t, base)
	if exists(t, abandoned.Path()) {
		t.Error("the next run has not swept the abandoned folder")
	}
	if !exists(t, mine.Path()) || mine.Path() == next.Path() {
		t.Error("a folder in use was swept or shared")
	}
	if err := mine.Remove(); err != nil {
		t.Fatal(err)
	}
	if exists(t, mine.Path()) {
		t.Error("a removed folder is still there")
	}
}

func TestNewRefusesAFolderThatOthersMayEnter(t *testing.T) {
	t.Parallel()
	base := filepath.Join(t.TempDir(), "base")
	if err := os.Mkdir(base, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	if d, err := rundir.New(base); err == nil {
		t.Errorf("made %s although others may read it", d.Path())
	}
}

func TestPort(t *testing.T) {
	t.Parallel()
	base := filepath.Join(t.TempDir(), "base")
	seen := map[int]bool{}
	for range 3 {
		d := newDir(t, base)
		for range 20 {
			port, err := d.Port()
			if err != nil {
				t.Fatal(err)
			}
			if seen[port] {
				t.Fatalf("port %d was given out twice", port)
			}
			seen[port] = true
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func newDir(t *testing.T, base string) *rundir.Dir {
	t.Helper()
	d, err := rundir.New(base)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}
