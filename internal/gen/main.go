// Command gen writes the files that are made from code. Run it from the repository's root: go run ./internal/gen
package main

import (
	"fmt"
	"os"

	"github.com/lanyard-k8s/lanyard/policy"
)

// policiesTemplate is the chart's template of the policies.
const policiesTemplate = "charts/lanyard/templates/policies.yaml"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run() error {
	text, err := policy.Template()
	if err != nil {
		return err
	}
	if err := os.WriteFile(policiesTemplate, []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing the policies' template: %w", err)
	}
	return nil
}
