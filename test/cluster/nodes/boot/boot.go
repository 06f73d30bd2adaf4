//go:build unix

// Package boot is what a node's process 1, program machine, and those who start it agree upon: the description of the node,
// and the words by which its daemons are started and stopped.
package boot

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Spec describes a node.
type Spec struct {
	// Hostname is the node's name.
	Hostname string
	// Root is the folder that becomes the node's root: its disk.
	Root string
	// Mounts are what the node sees of this machine, read-only, beside /usr.
	Mounts []Mount
	// Daemons are the programs that may be started, by name.
	Daemons map[string]Daemon
}

// Mount is a file or a folder of this machine and its path in the node.
type Mount struct {
	From, To string
}

// Daemon is a program that is started again whenever it ends. What it writes goes to /var/log/NAME.log.
type Daemon struct {
	Path string
	Args []string
}

// Write writes the description to a file.
func (s Spec) Write(path string) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

// Read reads the description from a file.
func Read(path string) (Spec, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Spec{}, err
	}
	var s Spec
	return s, json.Unmarshal(content, &s)
}

// Order is what can be done to a daemon.
type Order string

const (
	// Start starts a daemon, if it does not run.
	Start Order = "start"
	// Stop kills a daemon and lets it be.
	Stop Order = "stop"
)

// done answers an order that was carried out.
const done = "done"

// Socket is the path, in the node's root, of the socket that orders come by.
const Socket = "control.sock"

// answerTimeout bounds how long an order may take.
const answerTimeout = 2 * time.Minute

// Give has an order carried out on the node with this root, and returns when it is.
func Give(root string, order Order, daemon string) error {
	c, err := net.DialTimeout("unix", filepath.Join(root, Socket), answerTimeout)
	if err != nil {
		return fmt.Errorf("reaching the node: %w", err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(answerTimeout))
	if _, err := fmt.Fprintf(c, "%s %s\n", order, daemon); err != nil {
		return fmt.Errorf("giving the order to %s %s: %w", order, daemon, err)
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return fmt.Errorf("waiting for %s to %s: %w", daemon, order, err)
	}
	if answer = strings.TrimSpace(answer); answer != done {
		return errors.New(answer)
	}
	return nil
}

// Obey serves orders that come by a listener, one by one, until it is closed.
func Obey(l net.Listener, do func(order Order, daemon string) error) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		_ = c.SetDeadline(time.Now().Add(answerTimeout))
		line, err := bufio.NewReader(c).ReadString('\n')
		if err == nil {
			order, daemon, _ := strings.Cut(strings.TrimSpace(line), " ")
			answer := done
			if err := do(Order(order), daemon); err != nil {
				answer = strings.ReplaceAll(err.Error(), "\n", " ")
			}
			_, _ = fmt.Fprintln(c, answer)
		}
		_ = c.Close()
	}
}
