package private

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// info is what a file system could say.
type info struct {
	mode fs.FileMode
	sys  any
}

func (info) Name() string         { return "x" }
func (info) Size() int64          { return 0 }
func (i info) Mode() fs.FileMode  { return i.mode }
func (info) ModTime() time.Time   { return time.Time{} }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return i.sys }
func of(user int) *syscall.Stat_t { return &syscall.Stat_t{Uid: uint32(user)} }

func TestFaults(t *testing.T) {
	t.Parallel()
	me := os.Geteuid()
	tests := map[string]struct {
		info info
		dir  Fault
		file Fault
	}{
		"a directory of ours":                       {info{fs.ModeDir | 0o700, of(me)}, "", Kind},
		"a file of ours":                            {info{0o600, of(me)}, Kind, ""},
		"a directory that others enter":             {info{fs.ModeDir | 0o710, of(me)}, Mode, Kind},
		"a file that others read":                   {info{0o604, of(me)}, Kind, Mode},
		"a directory of another":                    {info{fs.ModeDir | 0o700, of(me + 1)}, Owner, Kind},
		"a file of another":                         {info{0o600, of(me + 1)}, Kind, Owner},
		"a directory whose owner nobody tells":      {info{fs.ModeDir | 0o700, nil}, Owner, Kind},
		"a file whose owner is told in other words": {info{0o600, "me"}, Kind, Owner},
		"a link":   {info{fs.ModeSymlink | 0o777, of(me)}, Link, Link},
		"a socket": {info{fs.ModeSocket | 0o600, of(me)}, Kind, Kind},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Directory(tc.info); got != tc.dir {
				t.Errorf("as a directory: %q, want %q", got, tc.dir)
			}
			if got := File(tc.info); got != tc.file {
				t.Errorf("as a file: %q, want %q", got, tc.file)
			}
		})
	}
}

func TestWhatTheSystemSays(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := os.Lstat(dir)
	if err != nil || Directory(got) != "" {
		t.Errorf("%v, %q", err, Directory(got))
	}
}
