package spool

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/connector/sink"
)

func TestTheDirectoryIsOurs(t *testing.T) {
	t.Parallel()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		spoil func(dir string)
		want  string // "" means that it opens
	}{
		"a directory that is not there yet": {func(dir string) { must(os.RemoveAll(dir)) }, ""},
		"a directory with a batch":          {func(string) {}, ""},
		"an empty one as the kubelet makes it": {func(dir string) {
			must(os.RemoveAll(dir))
			must(os.Mkdir(dir, 0o755))
		}, ""},
		"an empty one that others can write to": {func(dir string) {
			must(os.RemoveAll(dir))
			must(os.Mkdir(dir, 0o700))
			must(os.Chmod(dir, 0o777))
		}, "has mode 0777"},
		"a wide one with something in it": {func(dir string) { must(os.Chmod(dir, 0o755)) }, "has mode 0755"},
		"a symlink to a directory": {func(dir string) {
			must(os.Rename(dir, dir+"-elsewhere"))
			must(os.Symlink(dir+"-elsewhere", dir))
		}, "is a symlink"},
		"a file in its place": {func(dir string) {
			must(os.RemoveAll(dir))
			must(os.WriteFile(dir, nil, 0o600))
		}, "no directory"},
		"a segment that others can read": {func(dir string) { must(os.Chmod(filepath.Join(dir, segmentName(0)), 0o640)) }, "has mode 0640"},
		"a segment that is a symlink": {func(dir string) {
			must(os.Rename(filepath.Join(dir, segmentName(0)), dir+"-elsewhere"))
			must(os.Symlink(dir+"-elsewhere", filepath.Join(dir, segmentName(0))))
		}, "follows no symlinks"},
		"a symlink that leads within": {func(dir string) { must(os.Symlink(segmentName(0), filepath.Join(dir, segmentName(7)))) }, "follows no symlinks"},
		"a lock that is a symlink": {func(dir string) {
			must(os.Remove(filepath.Join(dir, lockName)))
			must(os.Symlink("/dev/null", filepath.Join(dir, lockName)))
		}, "lock"},
		"a wide folder of what is put aside": {func(dir string) { must(os.Chmod(filepath.Join(dir, asideFolder), 0o750)) }, "has mode 0750"},
		"a file of somebody else": {func(dir string) {
			if os.Geteuid() != 0 {
				t.Skip("only root can give files away")
			}
			must(os.Chown(filepath.Join(dir, segmentName(0)), 65534, 65534))
		}, "belongs to another user"},
		"a directory of somebody else": {func(dir string) {
			if os.Geteuid() != 0 {
				t.Skip("only root can give files away")
			}
			must(os.Chown(dir, 65534, 65534))
		}, "belongs to another user"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, newCollector(sink.Log))
			s := opened(t, o)
			appended(t, s, "", 0, 1)
			must(s.Close())
			tc.spoil(o.Directory)
			s, err := Open(o)
			switch {
			case tc.want == "" && err != nil:
				t.Fatal(err)
			case tc.want == "":
				info, err := os.Stat(o.Directory)
				if err != nil || info.Mode().Perm() != 0o700 {
					t.Errorf("the directory is %v, %v", info.Mode(), err)
				}
				must(s.Close())
			case err == nil:
				must(s.Close())
				t.Fatal("it opens")
			case !strings.Contains(err.Error(), tc.want):
				t.Errorf("%q says nothing of %q", err, tc.want)
			}
		})
	}
}

func TestFilesAreTheOwnersAlone(t *testing.T) {
	t.Parallel()
	o := options(t, newCollector(sink.Log))
	s := opened(t, o)
	running(t, s)
	appended(t, s, "", 0, 1)
	if err := s.Drain(soon(t)); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(o.Directory)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s", e.Name(), info.Mode())
		}
		seen[filepath.Ext(e.Name())] = true
	}
	if !seen[segmentExt] || !seen[journalExt] {
		t.Errorf("there are %v", entries)
	}
}
