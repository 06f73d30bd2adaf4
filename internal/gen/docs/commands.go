package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// commandsPage is the help of every program and command, as the programs print it.
func commandsPage(root string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "lanyard-docs-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var b bytes.Buffer
	b.WriteString("# Commands\n\n" + mark + "\n")
	for _, program := range []string{"connector", "exchange", "lanyard", "webhook"} {
		bin := filepath.Join(dir, program)
		if err := build(root, program, bin); err != nil {
			return nil, err
		}
		if err := describe(&b, bin, []string{program}); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// describe writes a command's help, then its subcommands'.
func describe(b *bytes.Buffer, bin string, words []string) error {
	help := exec.CommandContext(context.Background(), bin, append(words[1:len(words):len(words)], "--help")...)
	help.Env = append(os.Environ(), "NO_COLOR=1", "COLUMNS=100")
	out, err := help.Output()
	if err != nil {
		return fmt.Errorf("%s --help: %w", strings.Join(words, " "), err)
	}
	fmt.Fprintf(b, "\n## %s\n\n```text\n%s\n```\n", strings.Join(words, " "), bytes.TrimSpace(out))
	for _, sub := range subcommands(string(out)) {
		if err := describe(b, bin, append(words[:len(words):len(words)], sub)); err != nil {
			return err
		}
	}
	return nil
}

// subcommands reads cobra's list of commands. Those that cobra adds by itself are left out.
func subcommands(help string) []string {
	_, list, ok := strings.Cut(help, "Available Commands:\n")
	if !ok {
		return nil
	}
	list, _, _ = strings.Cut(list, "\n\n")
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z-]+) `).FindAllStringSubmatch(list, -1) {
		if m[1] != "help" && m[1] != "completion" {
			names = append(names, m[1])
		}
	}
	return names
}
