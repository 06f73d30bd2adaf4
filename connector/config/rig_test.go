package config_test

import (
	"strings"

	"github.com/lanyard-k8s/lanyard/connector/config"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

const (
	audience = "platform-connector.nvsentinel.nvidia.com"
	csp      = "system:serviceaccount:nvsentinel:csp-health-monitor"
	slurm    = "system:serviceaccount:nvsentinel:slurm-drain-monitor"
	ownName  = "system:serviceaccount:nvsentinel:lanyard-connector"
)

func socket() config.Process {
	return config.Process{Role: nodebinding.Socket, NodeName: "node-a"}
}

func deployment() config.Process {
	return config.Process{Role: nodebinding.Deployment}
}

// file renders a config.json from a good one with some members changed; a value of "-" leaves the member out.
func file(changes map[string]string) string {
	members := map[string]string{
		"enableNodeBindingAuth": "true", "AuthAudience": `"` + audience + `"`, "AuthCrossNodeServiceAccounts": "[]",
		"AuthMode": "-", "AuthFailOpenOnUnavailable": "-",
	}
	for k, v := range changes {
		members[k] = v
	}
	var parts []string
	for k, v := range members {
		if v != "-" {
			parts = append(parts, `"`+k+`": `+v)
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func good() config.Auth {
	return config.Auth{Mode: nodebinding.Enforce, Audience: audience, CrossNode: []string{}}
}
