package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/lanyard-k8s/lanyard/api/healthevent/weight"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// Kept is a record that was put aside.
type Kept struct {
	// File is its name in the folder quarantine.
	File string
	// Batch is what it holds; zero when Err says that it cannot be read.
	Batch sink.Batch
	Err   error
}

// Look reads what was put aside in a spool's directory, by name and so from old to new. It changes nothing, and does not mind a
// process that uses the spool.
func Look(directory string) (kept []Kept, err error) {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, fmt.Errorf("open the spool's directory: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	entries, err := fs.ReadDir(root.FS(), asideFolder)
	if err != nil {
		return nil, fmt.Errorf("list what was put aside: %w", err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || path.Ext(e.Name()) == partExt {
			continue
		}
		k := Kept{File: e.Name()}
		var body []byte
		if body, k.Err = root.ReadFile(path.Join(asideFolder, e.Name())); k.Err == nil {
			k.Batch, k.Err = decode(body)
		}
		kept = append(kept, k)
	}
	slices.SortFunc(kept, func(a, b Kept) int { return strings.Compare(a.File, b.File) })
	return kept, nil
}

// decode reads a body, without a word about whether it may go on. One that holds more than a batch may by default is not decoded: whoever
// looks shares the memory of the connector's container.
func decode(body []byte) (sink.Batch, error) {
	h, err := readHead(body)
	if err != nil {
		return sink.Batch{}, err
	}
	return h.readBatch(weight.Bounds{})
}
