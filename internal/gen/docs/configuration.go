package main

import (
	"bytes"
	_ "embed"
	"fmt"

	"github.com/lanyard-k8s/lanyard/webhook/settings"
)

// webhookYAML is the webhook's configuration with every key and its default; tests hold it against the loader.
//
//go:embed webhook.yaml
var webhookYAML []byte

// configurationPage shows the annotated file, once the loader has accepted it.
func configurationPage(string) ([]byte, error) {
	if _, err := settings.Parse(webhookYAML); err != nil {
		return nil, fmt.Errorf("the loader refuses the example: %w", err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Configuration of the webhook\n\n%s\n\n```yaml\n%s```\n", mark, webhookYAML)
	return b.Bytes(), nil
}
