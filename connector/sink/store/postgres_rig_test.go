package store

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
)

// server is a PostgreSQL of the tests' own, started by the first that asks for it. It listens on a socket in its folder.
type server struct {
	once    sync.Once
	err     error
	dir     string
	process *exec.Cmd
	ended   chan error
	names   atomic.Int64
}

var shared server

var errNoPostgres = errors.New("no PostgreSQL is installed (Debian: apt-get install postgresql)")

// database makes an empty database and returns a file with its data source name.
func (s *server) database(t testing.TB) string {
	t.Helper()
	s.once.Do(func() { s.err = s.start() })
	if errors.Is(s.err, errNoPostgres) {
		t.Skipf("SKIPPED: %v", s.err)
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	admin, err := sql.Open("pgx", s.dsn("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	name := fmt.Sprint("d", s.names.Add(1))
	if _, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(file, []byte(s.dsn(name)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (s *server) dsn(database string) string {
	return fmt.Sprintf("host=%s user=lanyard password=marked-password dbname=%s", s.dir, database)
}

func binaries() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return "", errNoPostgres
	}
	return filepath.Dir(slices.Max(found)), nil
}

// unprivileged is whom PostgreSQL runs as: it refuses root.
func unprivileged() (*syscall.SysProcAttr, int, error) {
	if os.Geteuid() != 0 {
		return &syscall.SysProcAttr{}, -1, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, 0, err
		}
	}
	uid, err := strconv.Atoi(u.Uid)
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}, uid, err
}

func (s *server) start() error {
	bin, err := binaries()
	if err != nil {
		return err
	}
	as, uid, err := unprivileged()
	if err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "lanyard-postgres-"); err != nil {
		return err
	}
	if uid >= 0 {
		if err := os.Chown(s.dir, uid, uid); err != nil {
			return err
		}
	}
	data := filepath.Join(s.dir, "data")
	init := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "lanyard", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
	init.SysProcAttr, init.Dir = as, s.dir
	if out, err := init.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	s.process = exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-k", s.dir, "-c", "listen_addresses=", "-c", "fsync=off")
	s.process.SysProcAttr, s.process.Dir = as, s.dir
	var log strings.Builder
	s.process.Stdout, s.process.Stderr = &log, &log
	if err := s.process.Start(); err != nil {
		return err
	}
	s.ended = make(chan error, 1)
	go func() { s.ended <- s.process.Wait() }()
	return s.await()
}

// await waits until the server answers.
func (s *server) await() error {
	db, err := sql.Open("pgx", s.dsn("postgres"))
	if err != nil {
		return err
	}
	defer db.Close()
	late := time.After(time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if err = db.Ping(); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-late:
			return fmt.Errorf("PostgreSQL does not answer: %w", err)
		case err := <-s.ended:
			s.ended <- err
			return fmt.Errorf("PostgreSQL ended: %w", err)
		}
	}
}

// stop ends the server at once; nobody needs its data.
func (s *server) stop() {
	if s.process != nil && s.process.Process != nil {
		_ = s.process.Process.Signal(syscall.SIGQUIT)
		<-s.ended
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}
