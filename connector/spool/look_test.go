package spool

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/connector/sink"
)

func TestLookAtWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	o := options(t, newCollector(sink.Log))
	s := opened(t, o)
	if kept, err := Look(o.Directory); err != nil || len(kept) != 0 {
		t.Errorf("an empty folder: %v, %v", kept, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"2.record": "\xff\xff", "1.segment": "LANYARD1", "3.record" + partExt: "half"} {
		if err := os.WriteFile(filepath.Join(o.Directory, asideFolder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := Look(o.Directory)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, k := range kept {
		files = append(files, k.File)
		if !errors.Is(k.Err, errRecord) {
			t.Errorf("%s: %v, want that it cannot be read", k.File, k.Err)
		}
	}
	if diff := cmp.Diff([]string{"1.segment", "2.record"}, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if _, err := Look(filepath.Join(o.Directory, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no spool: %v", err)
	}
}
