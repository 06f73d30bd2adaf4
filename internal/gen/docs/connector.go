package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lanyard-k8s/lanyard/connector"
	"github.com/lanyard-k8s/lanyard/connector/config"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
	"github.com/lanyard-k8s/lanyard/connector/spool"
)

// connectorYAML is the connector's settings file with every key and the socket role's default; tests hold it against the
// loader.
//
//go:embed connector.yaml
var connectorYAML []byte

// configJSON is config.json as the chart writes it by default.
const configJSON = `{"enableNodeBindingAuth": true, "AuthAudience": "platform-connector.nvsentinel.nvidia.com", "AuthMode": "enforce",
 "AuthFailOpenOnUnavailable": false, "AuthCrossNodeServiceAccounts": []}`

// configKeys says what each key of config.json takes.
func configKeys() [][]string {
	return [][]string{
		{config.KeyEnabled, "required", "`true` or `false`, or exactly these words as strings. `false`: nothing else is read and nothing is checked, which is no supported production configuration. The role deployment needs `true`."},
		{config.KeyAudience, "required", "The audience that a token must be made for."},
		{config.KeyCrossNode, "required", "A list of usernames, `system:serviceaccount:<namespace>:<name>`, that may name other nodes than their own; `[]` for nobody. Nothing is trimmed."},
		{config.KeyMode, "`enforce`", "`enforce` or `audit`. `audit` counts what breaks the rule and lets it through; the role deployment always enforces."},
		{config.KeyFailOpen, "`false`", "Whether a caller whose token cannot be reviewed is taken for one of the connector's own node. Not in the role deployment."},
	}
}

// connectorPage explains both files of the connector, once the loader has accepted them.
func connectorPage(string) ([]byte, error) {
	process := config.Process{Role: nodebinding.Socket, NodeName: "node-a"}
	if _, err := config.Parse(process, []byte(configJSON), connectorYAML); err != nil {
		return nil, fmt.Errorf("the loader refuses the example: %w", err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Configuration of the connector\n\n%s\n\n## config.json\n\nThe file that says who may name which node; the chart writes it from "+
		"`global.platformConnectorAuth`. `null` is refused everywhere, unknown keys are somebody else's, and all faults are reported at once.\n\n", mark)
	b.WriteString(row("key", "when absent", "what it takes") + row("---", "---", "---"))
	for _, k := range configKeys() {
		b.WriteString(row("`"+k[0]+"`", k[1], k[2]))
	}
	fmt.Fprintf(&b, "\n```json\n%s\n```\n\n## Settings\n\n```yaml\n%s```\n", configJSON, connectorYAML)
	return b.Bytes(), nil
}

// quiet is a watch for the sake of its series.
type quiet struct{}

// Trusted and Age say what a fresh watch would.
func (quiet) Trusted(time.Time) bool      { return true }
func (quiet) Age(time.Time) time.Duration { return 0 }

// connectorMetrics registers every series that a connector may have, those of its state among them.
func connectorMetrics(reg prometheus.Registerer) error {
	m, err := connector.NewMetrics(reg)
	if err != nil {
		return err
	}
	yes := func() bool { return true }
	return errors.Join(
		m.Observe(reg, connector.Gauges{Cached: func() int { return 0 }, Down: yes, Ready: yes, Pods: quiet{}, Nodes: quiet{}}),
		m.ObserveSpool(reg, func() spool.Stats { return spool.Stats{} }, sink.Names()...),
	)
}
