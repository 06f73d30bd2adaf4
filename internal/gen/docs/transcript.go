package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The lines between which the README shows what commands print. Lines that begin with "$ lanyard" are kept and run; all
// others are replaced by what they print.
const (
	transcriptBegin = "<!-- transcript: made by `make generate` -->\n"
	transcriptEnd   = "<!-- end of transcript -->\n"
)

// freshReadme gives the README with its transcript made anew.
func freshReadme(root string) ([]byte, error) {
	old, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		return nil, fmt.Errorf("read the README: %w", err)
	}
	before, rest, ok := strings.Cut(string(old), transcriptBegin)
	transcript, after, ok2 := strings.Cut(rest, transcriptEnd)
	if !ok || !ok2 {
		return nil, errors.New("the README has no transcript")
	}
	dir, err := os.MkdirTemp("", "lanyard-docs-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "lanyard")
	if err := build(root, "lanyard", bin); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString(before + transcriptBegin + "```console\n")
	for line := range strings.Lines(transcript) {
		if args, ok := strings.CutPrefix(line, "$ lanyard "); ok {
			cmd := exec.CommandContext(context.Background(), bin, strings.Fields(args)...)
			cmd.Dir = root
			out, err := cmd.CombinedOutput()
			var refused *exec.ExitError
			if err != nil && !errors.As(err, &refused) {
				return nil, fmt.Errorf("run %q: %w", line, err)
			}
			b.WriteString(line)
			b.Write(bytes.TrimRight(out, "\n"))
			b.WriteString("\n\n")
		}
	}
	b.Truncate(b.Len() - 1)
	b.WriteString("```\n" + transcriptEnd + after)
	return b.Bytes(), nil
}

// build makes one of our programs.
func build(root, program, bin string) error {
	cmd := exec.CommandContext(context.Background(), "go", "build", "-o", bin, "./cmd/"+program)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", program, err, out)
	}
	return nil
}
