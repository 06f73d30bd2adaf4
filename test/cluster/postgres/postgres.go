//go:build unix

// Package postgres runs a PostgreSQL server for tests, from the machine's own package, on a Unix socket in a folder of its own and,
// for pods, on an address of this machine's. Nothing of it outlives the process that started it, but for that folder if the process is killed.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/process"
)

// ErrNotInstalled says that the machine has no PostgreSQL.
var ErrNotInstalled = errors.New("PostgreSQL is not installed (looked for /usr/lib/postgresql/*/bin/postgres)")

// startTimeout is for a machine that is busy with other things.
const startTimeout = 3 * time.Minute

// Server is a running server. Its methods are not for several goroutines at once.
type Server struct {
	cp      *cluster.ControlPlane
	bin     string
	dir     string
	process *process.Process
	remote  *remote
}

// Start makes an empty server and waits until it answers. Whoever starts it stops it, before the control plane, which it has
// nothing to do with but that both end with the test.
func Start(ctx context.Context, cp *cluster.ControlPlane) (*Server, error) {
	return start(ctx, cp, nil)
}

func start(ctx context.Context, cp *cluster.ControlPlane, address net.IP) (*Server, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return nil, ErrNotInstalled
	}
	s := &Server{cp: cp, bin: filepath.Dir(found[len(found)-1])}
	if s.dir, err = os.MkdirTemp("", "lanyard-postgres-"); err != nil {
		return nil, fmt.Errorf("making PostgreSQL's folder: %w", err)
	}
	if err := s.start(ctx, address); err != nil {
		return nil, errors.Join(err, s.Stop(ctx))
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, address net.IP) error {
	uid, gid := servant()
	if uid >= 0 {
		if err := os.Chown(s.dir, uid, gid); err != nil {
			return fmt.Errorf("giving PostgreSQL's folder away: %w", err)
		}
	}
	init := exec.CommandContext(ctx, filepath.Join(s.bin, "initdb"), "-D", s.data(), "-A", "trust", "-U", "lanyard", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
	init.Dir = s.dir
	if uid >= 0 {
		init.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	if out, err := init.CombinedOutput(); err != nil {
		return fmt.Errorf("making a database: %w: %s", err, out)
	}
	if address != nil {
		if err := s.prepareRemote(address, uid, gid); err != nil {
			return fmt.Errorf("letting PostgreSQL be reached at %s: %w", address, err)
		}
	}
	if err := s.Run(ctx); err != nil {
		return err
	}
	return s.setPassword(ctx)
}

// servant is whom the server runs as where we are root, as whom it refuses to run; -1 is for ourselves.
func servant() (uid, gid int) {
	if os.Geteuid() != 0 {
		return -1, -1
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ = strconv.Atoi(u.Uid)
			gid, _ = strconv.Atoi(u.Gid)
			return uid, gid
		}
	}
	return 65534, 65534
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Run starts the server, again after Kill, and waits until it answers.
func (s *Server) Run(ctx context.Context) error {
	path := filepath.Join(s.bin, "postgres")
	args := append([]string{"-D", s.data(), "-k", s.dir, "-c", "max_connections=200"}, s.listening()...)
	if uid, gid := servant(); uid >= 0 {
		// The guard ends what it has started whoever that runs as, and setpriv becomes the server.
		args = append([]string{"--reuid=" + strconv.Itoa(uid), "--regid=" + strconv.Itoa(gid), "--clear-groups", path}, args...)
		var err error
		if path, err = exec.LookPath("setpriv"); err != nil {
			return fmt.Errorf("starting PostgreSQL as somebody else: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	db, err := sql.Open("pgx", s.Conn("postgres"))
	if err != nil {
		return fmt.Errorf("opening PostgreSQL: %w", err)
	}
	defer func() { _ = db.Close() }()
	for {
		if s.process == nil || ended(s.process) { // right after a kill its old processes may still be there, and it ends at once
			if s.process, err = s.cp.StartProcess("postgres", path, args...); err != nil {
				return err
			}
		}
		if err = db.PingContext(ctx); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for PostgreSQL: %w; its log ends with\n%s", err, s.process.Tail(15))
		}
	}
}

func ended(p *process.Process) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// Kill ends the server as a power cut does, and returns when nothing of it is there: the processes that serve its connections outlive
// their parent until they next look for it, and on a busy machine answer somebody meanwhile.
func (s *Server) Kill() error {
	serving := s.freeze()
	err := s.process.Kill()
	s.process = nil
	for _, pid := range serving {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have gone by itself
	}
	deadline := time.Now().Add(startTimeout)
	for _, pid := range serving {
		for syscall.Kill(pid, 0) == nil && !zombie(pid) {
			if time.Now().After(deadline) {
				return errors.Join(err, fmt.Errorf("process %d of PostgreSQL does not end", pid))
			}
			time.Sleep(time.Millisecond)
		}
	}
	return err
}

// freeze stops the server's first process, so that it starts no others, and returns those that it has started. Where the kernel does
// not tell, it returns none.
func (s *Server) freeze() []int {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return nil
	}
	line, _, _ := strings.Cut(string(text), "\n")
	first, err := strconv.Atoi(line)
	if err != nil || syscall.Kill(first, syscall.SIGSTOP) != nil {
		return nil
	}
	listed, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", first, first))
	if err != nil {
		return nil
	}
	var pids []int
	for _, field := range strings.Fields(string(listed)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// zombie says whether a process has ended and only its parent has not heard of it.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z")
}

// Stop ends the server and removes its folder.
func (s *Server) Stop(ctx context.Context) error {
	var err error
	if s.process != nil {
		err = s.process.Stop(ctx, time.Second) // it would wait for its clients; nothing of it is needed
	}
	return errors.Join(err, s.removed(ctx))
}

// removed removes the folder, in which processes that learn of their parent's end may write for a moment.
func (s *Server) removed(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := os.RemoveAll(s.dir)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("removing PostgreSQL's folder: %w", err)
		}
	}
}

// Conn is the connection string of a database.
func (s *Server) Conn(database string) string {
	return "postgres:///" + database + "?" + url.Values{"host": {s.dir}, "user": {"lanyard"}}.Encode()
}

// Exec does something to a database.
func (s *Server) Exec(ctx context.Context, database string, statements ...string) error {
	db, err := sql.Open("pgx", s.Conn(database))
	if err != nil {
		return fmt.Errorf("opening database %s: %w", database, err)
	}
	defer func() { _ = db.Close() }()
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}
