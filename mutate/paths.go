package mutate

import (
	"path"
	"strings"
)

// fenced is a directory of ours, cleaned, and its parent.
type fenced struct {
	dir, parent string
}

func fenceOf(dir string) fenced {
	dir = plain(dir)
	return fenced{dir: dir, parent: path.Dir(dir)}
}

// hit says whether something mounted at the cleaned path p would stand at our path, below it, or exactly at its parent
// directory, where it could bring a file of its own under our path's name. Mounts higher up are harmless, since the runtime
// puts ours on top.
func (f fenced) hit(p string) bool {
	return p == f.dir || p == f.parent || (strings.HasPrefix(p, f.dir) && p[len(f.dir)] == '/')
}

// below says whether p is dir or lies below it.
func below(p, dir string) bool {
	p, dir = plain(p), plain(dir)
	return p == dir || strings.HasPrefix(p, dir+"/")
}

// plain cleans a mount path as text. A relative path counts from the root, as in the kubelet, and /run is /var/run.
func plain(p string) string {
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	p = path.Clean(p)
	if p == "/run" || strings.HasPrefix(p, "/run/") {
		return "/var" + p
	}
	return p
}

// resolved cleans a mount path as a file system would in which /var/run is a link to /run: after it, ".." leads to the
// root and not to /var, so that /var/run/../var/run/x is /run/x while its text cleans to /var/var/run/x.
func resolved(p string) string {
	if !strings.Contains(p, "..") {
		return plain(p)
	}
	at := "/"
	for step := range strings.SplitSeq(p, "/") {
		at = path.Join(at, step) // ".." at the root stays there
		if at == "/var/run" {
			at = "/run"
		}
	}
	return plain(at)
}
