//go:build unix

// Package limits raises those of the machine's limits that a few nodes side by side exceed, for as long as there are any. All
// nodes run as one user to the kernel, and each kubelet, containerd and kube-proxy watches files by several instances of
// inotify, of which a user has 128 as Linux comes.
package limits

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Sysctls is where Linux has its settings.
const Sysctls = "/proc/sys"

// wanted are the least values for sixteen clusters.
func wanted() map[string]int {
	return map[string]int{
		"fs/inotify/max_user_instances": 4096,
		"fs/inotify/max_user_watches":   524288,
	}
}

// Raise raises what is lower than it has to be, and notes in a file what it was. It does nothing if that is noted already.
func Raise(sysctls, note string) error {
	if _, err := os.Stat(note); err == nil {
		return nil
	}
	before, raised := map[string]int{}, map[string]int{}
	for name, least := range wanted() {
		value, err := read(filepath.Join(sysctls, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading the limit %s: %w", name, err)
		}
		if value < least {
			before[name], raised[name] = value, least
		}
	}
	if len(before) == 0 {
		return nil
	}
	content, err := json.Marshal(before)
	if err == nil {
		err = os.WriteFile(note, content, 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting the machine's limits: %w", err)
	}
	return set(sysctls, raised)
}

// Restore sets what the note says, and removes the note. Without one it does nothing.
func Restore(sysctls, note string) error {
	content, err := os.ReadFile(note)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var before map[string]int
	if err == nil {
		err = json.Unmarshal(content, &before)
	}
	if err != nil {
		return fmt.Errorf("reading what the machine's limits were: %w", err)
	}
	return errors.Join(set(sysctls, before), os.Remove(note))
}

func read(path string) (int, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(content)))
}

func set(sysctls string, values map[string]int) error {
	var errs []error
	for name, value := range values {
		if err := os.WriteFile(filepath.Join(sysctls, name), []byte(strconv.Itoa(value)), 0o644); err != nil {
			errs = append(errs, fmt.Errorf("setting the limit %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
