package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/lanyard-k8s/lanyard/dockerjob/jobspec"
)

// environment gathers a job's variables and where each was written, for messages. A name that stands again takes the place of the
// one before, as docker run has it: files first, then --env.
type environment struct {
	vars  []jobspec.EnvVar
	where []string
}

// readEnvironment reads the files and the flags.
func readEnvironment(files, flags []string, stdin io.Reader) (*environment, error) {
	e := &environment{}
	for _, file := range files {
		raw, err := readFile(file, stdin)
		if err != nil {
			return nil, fmt.Errorf("--env-file: %w", err)
		}
		n := 0
		for line := range strings.Lines(string(raw)) {
			n++
			line = strings.TrimRight(line, "\r\n")
			if trimmed := strings.TrimLeft(line, " \t"); trimmed == "" || strings.HasPrefix(trimmed, "#") {
				continue
			}
			if err := e.add(strings.TrimLeft(line, " \t"), fmt.Sprintf("%s:%d", file, n)); err != nil {
				return nil, err
			}
		}
	}
	for _, flag := range flags {
		if err := e.add(flag, "--env"); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// add takes "NAME=value", or "NAME" for the value that it has here. Its errors hold no value.
func (e *environment) add(text, where string) error {
	name, value, given := strings.Cut(text, "=")
	if name == "" {
		return fmt.Errorf("%s: a variable needs a name before the =", where)
	}
	if strings.ContainsAny(name, " \t") {
		return fmt.Errorf("%s: a variable's name holds no spaces; write NAME=value", where)
	}
	if !given {
		var set bool
		if value, set = os.LookupEnv(name); !set {
			return fmt.Errorf("%s: %s has no value: write %s=value, or set it here", where, oneLine(name), oneLine(name))
		}
	}
	v := jobspec.EnvVar{Name: name, Value: value}
	for i := range e.vars {
		if e.vars[i].Name == name {
			e.vars[i], e.where[i] = v, where
			return nil
		}
	}
	e.vars, e.where = append(e.vars, v), append(e.where, where)
	return nil
}

// refusal is a list of faults in one line, each by the flag or the file's line that it stands in.
func (e *environment) refusal(faults []jobFault) error {
	var parts []string
	for _, f := range faults {
		text := f.message
		if where := e.place(f.field); where != "" {
			text = where + ": " + text
		}
		parts = append(parts, text)
	}
	return errors.New(strings.Join(parts, "; "))
}

// jobFault is a field of the job's spec and what is wrong with it.
type jobFault struct{ field, message string }

// place is where the user wrote a field of the spec.
func (e *environment) place(field string) string {
	var i int
	if n, err := fmt.Sscanf(field, "env[%d]", &i); n == 1 && err == nil && i >= 0 && i < len(e.where) {
		return e.where[i]
	}
	switch name, _, _ := strings.Cut(field, "["); name {
	case "image", "workspace", "job", "task", "cpu", "memory", "env":
		return "--" + name
	case "command":
		return "the command"
	default:
		return field
	}
}
