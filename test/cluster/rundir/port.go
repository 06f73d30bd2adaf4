//go:build unix

package rundir

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
)

// Ports are taken from below the ranges that Linux and macOS hand out for outgoing connections, so that none of those can
// take one away between its being found free and its being listened on.
const (
	firstPort = 20000
	lastPort  = 30000
)

// ErrNoPort says that every port of the range is taken.
var ErrNoPort = errors.New("no free port on the loopback address")

// Port returns a TCP port of the loopback address that nothing listens on and that no other run was given.
func (d *Dir) Port() (int, error) {
	var port int
	err := exclusively(d.base, func() error {
		taken, err := takenPorts(d.base)
		if err != nil {
			return err
		}
		start := firstPort + rand.IntN(lastPort-firstPort)
		for i := range lastPort - firstPort {
			candidate := firstPort + (start-firstPort+i)%(lastPort-firstPort)
			if !taken[candidate] && free(candidate) {
				port = candidate
				return d.note(candidate)
			}
		}
		return ErrNoPort
	})
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	return port, nil
}

// note writes down that the port is this run's.
func (d *Dir) note(port int) error {
	f, err := os.OpenFile(d.Path(portName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, port)
	return errors.Join(err, f.Close())
}

// takenPorts are the ports of every run that has a folder.
func takenPorts(base string) (map[int]bool, error) {
	runs, err := filepath.Glob(filepath.Join(base, prefix+"*"))
	if err != nil {
		return nil, err
	}
	taken := map[int]bool{}
	for _, run := range runs {
		ports, err := notedPorts(run)
		if err != nil {
			return nil, err
		}
		for _, port := range ports {
			taken[port] = true
		}
	}
	return taken, nil
}

// free says whether the port can be listened on.
func free(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
