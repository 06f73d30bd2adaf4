package store

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/connector/sink"
)

func TestTheFileIsTheOwnersAlone(t *testing.T) {
	t.Parallel()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		spoil func(path string)
		want  string
	}{
		"as it was made":                 {func(string) {}, ""},
		"in a path with odd characters":  {func(string) {}, ""},
		"a directory as a kubelet makes": {func(path string) { must(os.Chmod(filepath.Dir(path), 0o755)) }, ""},
		"a directory open to others":     {func(path string) { must(os.Chmod(filepath.Dir(path), 0o777)) }, "others must not be able to write"},
		"a file that others can read":    {func(path string) { must(os.Chmod(path, 0o644)) }, "must have 0600"},
		"a file that is a symlink":       {func(path string) { must(os.Rename(path, path+"x")); must(os.Symlink(path+"x", path)) }, "no symlinks"},
		"a log that is a symlink":        {func(path string) { must(os.Symlink("/dev/null", path+"-wal")) }, "no symlinks"},
		"a directory that is a symlink": {func(path string) {
			dir := filepath.Dir(path)
			must(os.Rename(dir, dir+"x"))
			must(os.Symlink(dir+"x", dir))
		}, "is a symlink"},
		"a file that is not a database":  {func(path string) { must(os.WriteFile(path, []byte(strings.Repeat("no database", 1000)), 0o600)) }, "not a database"},
		"a directory without its parent": {func(path string) { must(os.RemoveAll(filepath.Dir(filepath.Dir(path)))) }, "make the store's directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "a dir?x#%41", "store", "events.db")
			must(os.Mkdir(filepath.Dir(filepath.Dir(path)), 0o700))
			s, err := OpenSQLite(t.Context(), path, Options{})
			must(err)
			deliver(t, s, batch("pod", "1", 1), sink.Report{sink.Written: 1})
			for _, file := range []string{path, path + "-wal", path + "-shm"} {
				if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v, %v", file, info, err)
				}
			}
			must(s.Close())
			tc.spoil(path)
			s, err = OpenSQLite(t.Context(), path, Options{})
			switch {
			case tc.want == "":
				must(err)
				must(s.Close())
				if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
					t.Errorf("the directory is %v, %v", info.Mode(), err)
				}
			case err == nil:
				must(s.Close())
				t.Error("it opens")
			case !strings.Contains(err.Error(), tc.want):
				t.Errorf("%q says nothing of %q", err, tc.want)
			}
		})
	}
}

func TestOpeningAgainKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store", "events.db")
	open := func(ctx context.Context) (*Store, error) { return OpenSQLite(ctx, path, Options{}) }
	s := opened(t, open)
	deliver(t, s, batch("pod", "1", 1), sink.Report{sink.Written: 1})
	again := opened(t, open) // as a rollout may do while the first still stops
	deliver(t, again, batch("pod", "1", 1), sink.Report{sink.Duplicate: 1})
	deliver(t, s, batch("pod", "2", 1), sink.Report{sink.Written: 1})
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// childPath makes the test binary a child that stores until it is killed.
const childPath = "LANYARD_TEST_STORE"

func storeForEver(path string) {
	s, err := OpenSQLite(context.Background(), path, Options{})
	if err != nil {
		fmt.Println("!" + err.Error())
		os.Exit(1)
	}
	var mu sync.Mutex
	for p := range 4 {
		go func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("%d.%d.%d", os.Getpid(), p, i)
				_, err := s.Deliver(context.Background(), batch("pod", key, 3))
				mu.Lock()
				if err == nil {
					fmt.Println("+" + key)
				} else {
					fmt.Println("!" + err.Error())
				}
				mu.Unlock()
			}
		}()
	}
	select {}
}

// TestKillLosesNoStoredBatch kills a process that stores, again and again.
func TestKillLosesNoStoredBatch(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes for some seconds")
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store", "events.db")
	stored := map[string]bool{}
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		child := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
		child.Env = append(os.Environ(), childPath+"="+path)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := 20 + rand.N(60)
		said := bufio.NewScanner(out)
		for n := 0; said.Scan(); n++ {
			if said.Text()[0] != '+' {
				t.Errorf("the child says %q", said.Text())
			}
			stored[said.Text()[1:]] = true
			if n == lines {
				_ = child.Process.Kill()
			}
		}
		_ = child.Wait()
		if ctx.Err() != nil {
			t.Fatalf("the child said too little in a minute: want %d lines", lines)
		}
	}
	s := opened(t, func(ctx context.Context) (*Store, error) { return OpenSQLite(ctx, path, Options{}) })
	for key := range stored {
		if n := count(t, s, "idempotency_key = ?1", key); n != 3 {
			t.Fatalf("of batch %s %d events are there, want 3", key, n)
		}
	}
	if n := count(t, s, "1=1"); n%3 != 0 || len(stored) < 200 {
		t.Errorf("%d rows of batches of three, %d batches", n, len(stored))
	}
	t.Logf("%d batches stored, %d rows", len(stored), count(t, s, "1=1"))
}
