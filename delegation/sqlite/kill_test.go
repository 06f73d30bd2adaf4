package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lanyard-k8s/lanyard/delegation/delegationtest"
	"github.com/lanyard-k8s/lanyard/delegation/sqlite"
)

// childDir and childSeed make a copy of the test write to a database until it is killed.
const (
	childDir  = "LANYARD_TEST_SQLITE_DIR"
	childSeed = "LANYARD_TEST_SQLITE_SEED"
)

func child(dir string) int {
	s, err := sqlite.Open(context.Background(), dir)
	if err == nil {
		err = delegationtest.Hammer(context.Background(), s, os.Stdout, os.Getenv(childSeed))
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// TestTwentyKills kills a writing process twenty times, each time after another number of acknowledgements. What it had
// acknowledged is there afterwards, the file is whole, and the lock is free.
func TestTwentyKills(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, acknowledged := migrated(t), delegationtest.Acknowledged{}
	for round := range 20 {
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), childDir+"="+dir, fmt.Sprintf("%s=%d", childSeed, round))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		reader := bufio.NewReader(out)
		if acknowledged.Read(reader, 5+7*round) == 0 {
			t.Error("the child wrote nothing")
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		acknowledged.Read(reader, 0)
		if err := cmd.Wait(); err == nil {
			t.Error("the child ended by itself")
		}
	}
	s := open(t, dir)
	acknowledged.Check(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, sqlite.File))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var whole string
	if err := db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&whole); err != nil || whole != "ok" {
		t.Errorf("integrity: %q, %v", whole, err)
	}
	t.Logf("%d rows acknowledged over 20 kills", len(acknowledged))
}
