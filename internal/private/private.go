// Package private says whether a directory or a file is this program's user's alone, which is what keeps keys, rows and reports from being
// read or written by others of the machine.
package private

import (
	"io/fs"
	"os"
	"syscall"
)

// Fault is what makes something not private; the zero value is that nothing does.
type Fault string

// The faults, in the order in which they are looked for. Their texts fit behind a path.
const (
	Link  Fault = "is a symbolic link"
	Kind  Fault = "is of another kind"
	Mode  Fault = "may be entered or read by others"
	Owner Fault = "belongs to another user"
)

// Directory looks at what Lstat says of a directory: a real one, of this program's user, that nobody else may enter.
func Directory(info fs.FileInfo) Fault { return fault(info, info.IsDir()) }

// File looks at what Lstat says of a file: a plain one, of this program's user, that nobody else may open.
func File(info fs.FileInfo) Fault { return fault(info, info.Mode().IsRegular()) }

func fault(info fs.FileInfo, kind bool) Fault {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return Link
	case !kind:
		return Kind
	case info.Mode().Perm()&0o077 != 0:
		return Mode
	case !Owned(info):
		return Owner
	default:
		return ""
	}
}

// Owned says whether it belongs to this program's user. Where the file system does not say whose it is, it does not.
func Owned(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int64(stat.Uid) == int64(os.Geteuid())
}
