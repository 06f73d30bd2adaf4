package postgres_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	"github.com/lanyard-k8s/lanyard/delegation/postgres"
)

func TestMain(m *testing.M) {
	if conn := os.Getenv(childConn); conn != "" {
		os.Exit(child(conn))
	}
	code := m.Run()
	shared.stop()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// shared is the server of all tests that do it no harm.
var shared server

// server is a PostgreSQL server of Debian's package, on a Unix socket in a directory of its own.
type server struct {
	once sync.Once
	why  string // why there is none
	dir  string
	bin  string
	cmd  *exec.Cmd
	log  bytes.Buffer
	next int
	mu   sync.Mutex

	port    int                       // 0 is PostgreSQL's own
	prepare func(dir string) []string // called before the first start, gives more arguments
	args    []string
}

// start makes and starts the server once; the test is skipped, aloud, where PostgreSQL is not installed.
func (s *server) start(t testing.TB) {
	t.Helper()
	s.once.Do(func() {
		if err := s.init(); err != nil {
			s.why = err.Error()
			return
		}
		if err := s.run(); err != nil {
			t.Fatalf("start PostgreSQL: %v\n%s", err, s.log.String())
		}
	})
	if s.why != "" {
		t.Skipf("SKIPPED: %s", s.why)
	}
}

func (s *server) init() error {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		return fmt.Errorf("PostgreSQL is not installed (looked for /usr/lib/postgresql/*/bin/postgres)")
	}
	s.bin = filepath.Dir(found[len(found)-1])
	dir, err := os.MkdirTemp("", "lanyard-postgres")
	if err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	s.dir = dir
	if cred := unprivileged(); cred != nil {
		if err := os.Chown(dir, int(cred.Uid), int(cred.Gid)); err != nil {
			return fmt.Errorf("give the directory away: %w", err)
		}
	}
	cmd := s.command("initdb", "-D", s.data(), "-A", "trust", "-U", "lanyard", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if s.port == 0 {
		s.port = 5432
	}
	if s.prepare != nil {
		s.args = s.prepare(dir)
	}
	return nil
}

func (s *server) data() string { return filepath.Join(s.dir, "data") }

// command is one of PostgreSQL's programs, which refuse to be run by root.
func (s *server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: unprivileged()}
	return cmd
}

// unprivileged is somebody else than root; nil if we are not root.
func unprivileged() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.ParseUint(u.Uid, 10, 32)
			gid, _ := strconv.ParseUint(u.Gid, 10, 32)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	return &syscall.Credential{Uid: 65534, Gid: 65534}
}

// run starts the server and waits until it answers.
func (s *server) run() error {
	args := append([]string{"-D", s.data(), "-k", s.dir, "-c", "listen_addresses=", "-c", "max_connections=200", "-p", strconv.Itoa(s.port)}, s.args...)
	s.cmd = s.command("postgres", args...)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	db, err := sql.Open("pgx", s.conn("postgres"))
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() { _ = db.Close() }()
	deadline := time.After(60 * time.Second)
	for {
		if err = db.Ping(); err == nil {
			return nil
		}
		select {
		case <-deadline:
			return fmt.Errorf("wait for an answer: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// kill ends the server and all its processes as a power cut would, but for the disk's cache.
func (s *server) kill() {
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	_ = s.cmd.Wait()
}

func (s *server) stop() {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(syscall.SIGINT)
		_ = s.cmd.Wait()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

func (s *server) conn(database string) string {
	return "postgres:///" + database + "?" + url.Values{"host": {s.dir}, "port": {strconv.Itoa(s.port)}, "user": {"lanyard"}}.Encode()
}

// database makes a database of its own for a test.
func (s *server) database(t testing.TB) string {
	t.Helper()
	s.start(t)
	s.mu.Lock()
	s.next++
	name := fmt.Sprint("t", s.next)
	s.mu.Unlock()
	s.exec(t, "postgres", "CREATE DATABASE "+name)
	return name
}

// exec does something to a database behind the store's back.
func (s *server) exec(t testing.TB, database string, statements ...string) {
	t.Helper()
	db, err := sql.Open("pgx", s.conn(database))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, statement := range statements {
		if _, err := db.ExecContext(context.Background(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// migrated makes a database with our tables, and returns how to reach it.
func (s *server) migrated(t testing.TB) postgres.Options {
	t.Helper()
	o := postgres.Options{Conn: s.conn(s.database(t))}
	if err := postgres.Migrate(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	return o
}

func open(t testing.TB, o postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
