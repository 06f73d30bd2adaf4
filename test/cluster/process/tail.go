//go:build unix

package process

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// tailBytes bounds how much of a log is read for its last lines.
const tailBytes = 64 << 10

// Tail returns the last lines of the program's log, for a message to a person. It never fails: what went wrong is in the
// text.
func (p *Process) Tail(lines int) string {
	text, err := lastBytes(p.spec.Log)
	if err != nil {
		return fmt.Sprintf("(reading the log: %v)", err)
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// lastBytes reads the end of a file.
func lastBytes(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if _, err := f.Seek(max(0, info.Size()-tailBytes), 0); err != nil {
		return nil, err
	}
	_, err = b.ReadFrom(f)
	return b.Bytes(), err
}
