package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/delegationtest"
	"github.com/lanyard-k8s/lanyard/delegation/sqlite"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(child(dir))
	}
	goleak.VerifyTestMain(m)
}

func migrated(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "db")
	if err := sqlite.Migrate(context.Background(), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t testing.TB, dir string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSuite(t *testing.T) {
	t.Parallel()
	delegationtest.Run(t, func(t *testing.T) delegation.Store { return open(t, migrated(t)) })
}

func TestADatabaseOfTheFirstVersion(t *testing.T) {
	t.Parallel()
	dir := migrated(t)
	delegationtest.Older(t, func() delegation.Store { return open(t, dir) }, func() {
		if err := sqlite.Migrate(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
	}, func(statements ...string) {
		db, err := sql.Open("sqlite", filepath.Join(dir, sqlite.File)+"?_pragma=busy_timeout(5000)")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		for _, statement := range statements {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	})
}

func TestWhatWasWrittenIsThereAfterwards(t *testing.T) {
	t.Parallel()
	dir := migrated(t)
	s := open(t, dir)
	if _, err := s.Confirm(t.Context(), delegationtest.Submission("j1")); err != nil {
		t.Fatal(err)
	}
	want, err := s.Put(t.Context(), delegationtest.PodRow("j1", "p1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // migrating what is up to date changes nothing
		if err := sqlite.Migrate(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, dir)
	defer func() { _ = s.Close() }()
	got, err := s.Get(t.Context(), want.Name)
	if err != nil || got.Row != want {
		t.Errorf("got %+v, %v, want %+v", got.Row, err, want)
	}
}

func TestTheFilesAreOursAlone(t *testing.T) {
	t.Parallel()
	dir := migrated(t)
	s := open(t, dir)
	defer func() { _ = s.Close() }()
	if _, err := s.Confirm(t.Context(), delegationtest.Submission("j1")); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < 4 {
		t.Fatalf("%d files, %v; want the database, its -wal and -shm, and the lock", len(entries), err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s has mode %v, %v", e.Name(), info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v, %v", info.Mode(), err)
	}
}

// damage is what can be wrong with a database before it is opened.
type damage struct {
	do   func(t *testing.T, dir string)
	want error
	says string
}

func damages() map[string]damage {
	run := func(statement string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			db, err := sql.Open("sqlite", filepath.Join(dir, sqlite.File))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	must := func(f func(dir string) error) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := f(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	file := func(dir string) string { return filepath.Join(dir, sqlite.File) }
	moved := func(name string) func(dir string) error {
		return func(dir string) error {
			away := filepath.Join(filepath.Dir(dir), "elsewhere")
			return errors.Join(os.Rename(filepath.Join(dir, name), away), os.Symlink(away, filepath.Join(dir, name)))
		}
	}
	return map[string]damage{
		"no directory":          {must(os.RemoveAll), delegation.ErrSchemaOlder, "exchange migrate"},
		"no database":           {must(func(dir string) error { return os.Remove(file(dir)) }), delegation.ErrSchemaOlder, "exchange migrate"},
		"an empty file":         {must(func(dir string) error { return os.Truncate(file(dir), 0) }), delegation.ErrSchemaOlder, "version 0"},
		"an older schema":       {run(`DELETE FROM schema_version WHERE version_id > 0`), delegation.ErrSchemaOlder, "the program"},
		"a newer schema":        {run(`INSERT INTO schema_version (version_id, is_applied) VALUES (99, 1)`), delegation.ErrSchemaNewer, "version 99"},
		"no database at all":    {must(func(dir string) error { return os.WriteFile(file(dir), []byte(strings.Repeat("junk", 4096)), 0o600) }), delegation.ErrCorrupt, "damaged"},
		"a directory for all":   {must(func(dir string) error { return os.Chmod(dir, 0o755) }), delegation.ErrUnsafe, "must be 0700"},
		"a file for all":        {must(func(dir string) error { return os.Chmod(file(dir), 0o644) }), delegation.ErrUnsafe, "must be 0600"},
		"a link as database":    {must(moved(sqlite.File)), delegation.ErrUnsafe, "symbolic link"},
		"a link as lock":        {must(moved("delegation.lock")), delegation.ErrUnsafe, "symbolic link"},
		"a link as journal":     {must(func(dir string) error { return os.Symlink("/dev/null", file(dir)+"-wal") }), delegation.ErrUnsafe, "symbolic link"},
		"a link as directory":   {must(func(dir string) error { return errors.Join(os.Rename(dir, dir+"2"), os.Symlink(dir+"2", dir)) }), delegation.ErrUnsafe, "symbolic link"},
		"a file as directory":   {must(func(dir string) error { return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)) }), delegation.ErrUnsafe, "no directory"},
		"a directory as file":   {must(func(dir string) error { return errors.Join(os.Remove(file(dir)), os.Mkdir(file(dir), 0o700)) }), delegation.ErrUnsafe, "no plain file"},
		"a directory of others": {must(func(dir string) error { return os.Lchown(dir, 65534, 65534) }), delegation.ErrUnsafe, "another user"},
	}
}

func TestADamagedDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range damages() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "a directory of others" && os.Geteuid() != 0 {
				t.Skip("only root can give a directory away")
			}
			dir := migrated(t)
			tc.do(t, dir)
			s, err := sqlite.Open(t.Context(), dir)
			if err == nil {
				_ = s.Close()
			}
			if !errors.Is(err, tc.want) || !strings.Contains(fmt.Sprint(err), tc.says) {
				t.Errorf("error is %v, want %v saying %q", err, tc.want, tc.says)
			}
			if tc.want == delegation.ErrSchemaNewer {
				if err := sqlite.Migrate(t.Context(), dir); !errors.Is(err, delegation.ErrSchemaNewer) {
					t.Errorf("migrate: error is %v, want ErrSchemaNewer", err)
				}
			}
		})
	}
}

func TestOneAtATime(t *testing.T) {
	t.Parallel()
	dir := migrated(t)
	first := open(t, dir)
	if _, err := sqlite.Open(t.Context(), dir); !errors.Is(err, delegation.ErrLocked) {
		t.Errorf("a second one: error is %v, want ErrLocked", err)
	}
	if err := sqlite.Migrate(t.Context(), dir); !errors.Is(err, delegation.ErrLocked) {
		t.Errorf("migrate under it: error is %v, want ErrLocked", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, dir).Close(); err != nil {
		t.Error(err)
	}
}

// TestBreakingUnderway takes the database away while it is open.
func TestBreakingUnderway(t *testing.T) {
	t.Parallel()
	dir := migrated(t)
	s := open(t, dir)
	if _, err := s.Confirm(t.Context(), delegationtest.Submission("j1")); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, sqlite.File))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, statement := range []string{
		`UPDATE submission SET audiences = 'no list'`, `PRAGMA writable_schema = 1`,
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Submission(t.Context(), "j1"); !errors.Is(err, delegation.ErrCorrupt) {
		t.Errorf("a record of another make: error is %v, want ErrCorrupt", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "x"); !errors.Is(err, delegation.ErrUnavailable) {
		t.Errorf("get from a closed store: error is %v, want ErrUnavailable", err)
	}
	if _, err := s.Put(t.Context(), delegationtest.PodRow("j1", "p1")); !errors.Is(err, delegation.ErrUnavailable) {
		t.Errorf("put into a closed store: error is %v, want ErrUnavailable", err)
	}
}

// TestRevocationIsFinalForOtherToolsToo tries what somebody with an SQL shell might.
func TestRevocationIsFinalForOtherToolsToo(t *testing.T) {
	t.Parallel()
	dir := migrated(t)
	s := open(t, dir)
	defer func() { _ = s.Close() }()
	row := delegationtest.PodRow("j1", "p1")
	_, err := s.Confirm(t.Context(), delegationtest.Submission("j1"))
	if err == nil {
		_, err = s.Put(t.Context(), row)
	}
	if err == nil {
		_, err = s.Revoke(t.Context(), delegation.Revocation{Submission: "j1", Reason: delegation.SubmissionRevoked, At: delegationtest.At(1)})
	}
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, sqlite.File)+"?_pragma=foreign_keys(1)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, statement := range []string{
		`UPDATE delegation SET state = 'ACTIVE', revoked_at = NULL, reason = ''`,
		`UPDATE submission SET state = 'CONFIRMED', closed_at = NULL, revoked_at = NULL, reason = ''`,
		`UPDATE submission SET revoked_at = NULL`,
		`DELETE FROM submission`,
		`INSERT INTO guard SELECT 2, epoch, policies, lineage, ended FROM guard`,
	} {
		if _, err := db.ExecContext(t.Context(), statement); err == nil {
			t.Errorf("%s: went through", statement)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	s := open(b, migrated(b))
	defer func() { _ = s.Close() }()
	if _, err := s.Confirm(context.Background(), delegationtest.Submission("j1")); err != nil {
		b.Fatal(err)
	}
	var names []string
	for i := range 1000 {
		r, err := s.Put(context.Background(), delegationtest.PodRow("j1", fmt.Sprint("p", i)))
		if err != nil {
			b.Fatal(err)
		}
		names = append(names, r.Name)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := s.Get(context.Background(), names[i%len(names)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkPut(b *testing.B) {
	s := open(b, migrated(b))
	defer func() { _ = s.Close() }()
	if _, err := s.Confirm(context.Background(), delegationtest.Submission("j1")); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := s.Put(context.Background(), delegationtest.PodRow("j1", fmt.Sprint("p", i))); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// BenchmarkSize reports what a submission with one row takes in bytes of the file, indexes included.
func BenchmarkSize(b *testing.B) {
	const many = 2000
	for b.Loop() {
		dir := migrated(b)
		s := open(b, dir)
		for i := range many {
			uid := fmt.Sprintf("6a1f9cde-7d4c-4f6f-9d3e-%012d", i)
			_, err := s.Confirm(context.Background(), delegationtest.Submission(uid))
			if err == nil {
				_, err = s.Put(context.Background(), delegationtest.PodRow(uid, fmt.Sprintf("0b1c2d3e-4f5a-6b7c-8d9e-%012d", i)))
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		var size int64
		files, err := os.ReadDir(dir)
		for _, f := range files {
			info, bad := f.Info()
			if err = errors.Join(err, bad); err == nil {
				size += info.Size()
			}
		}
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(size)/many, "B/job-and-pod")
		b.ReportMetric(0, "ns/op")
	}
}
