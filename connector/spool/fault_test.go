package spool

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// faulty is a disk that is full or broken while a test says so.
type faulty struct {
	disk
	full      atomic.Bool // a write takes half and fails
	unsynced  atomic.Bool // fsync fails
	unmovable atomic.Bool // a file cannot be cut off
}

type faultyFile struct {
	file
	d *faulty
}

func (d *faulty) create(name string) (file, error) {
	f, err := d.disk.create(name)
	if err != nil {
		return nil, err
	}
	return faultyFile{f, d}, nil
}

func (f faultyFile) Write(b []byte) (int, error) {
	if f.d.full.Load() {
		n, _ := f.file.Write(b[:len(b)/2])
		return n, syscall.ENOSPC
	}
	return f.file.Write(b)
}

func (f faultyFile) Sync() error {
	if f.d.unsynced.Load() {
		return syscall.EIO
	}
	return f.file.Sync()
}

func (f faultyFile) Truncate(size int64) error {
	if f.d.unmovable.Load() {
		return syscall.EIO
	}
	return f.file.Truncate(size)
}

func TestAFaultyDisk(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault func(*faulty, bool)
		want  error
	}{
		"a full disk":                   {func(d *faulty, on bool) { d.full.Store(on) }, syscall.ENOSPC},
		"an fsync that fails":           {func(d *faulty, on bool) { d.unsynced.Store(on) }, syscall.EIO},
		"a full disk that keeps halves": {func(d *faulty, on bool) { d.full.Store(on); d.unmovable.Store(on) }, syscall.ENOSPC},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := newCollector(sink.Log)
			o := options(t, to)
			if err := o.complete(); err != nil {
				t.Fatal(err)
			}
			root, err := openRoot(o.Directory)
			if err != nil {
				t.Fatal(err)
			}
			d := &faulty{disk: root}
			s, err := open(o, d)
			if err != nil {
				t.Fatal(err)
			}
			want := appended(t, s, "p", 0, 2)
			tc.fault(d, true)
			used := s.Stats().Bytes
			for range 3 {
				if err := s.Append(t.Context(), batchOf("p", "lost")); !errors.Is(err, tc.want) {
					t.Fatalf("got %v", err)
				}
			}
			if got := s.Stats().Bytes; got > used+3*headerSize {
				t.Errorf("what was not written counts: %d bytes after %d", got, used)
			}
			tc.fault(d, false)
			want = append(want, appended(t, s, "p", 2, 2)...)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			o.Hooks.Quarantined = func(r Reason) { t.Errorf("put aside: %s", r) }
			s = opened(t, o)
			running(t, s)
			if diff := cmp.Diff(want, to.await(t, len(want))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
