package config

import (
	"errors"
	"fmt"
	"os"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

// Process is what the connector knows about itself before it reads a file.
type Process struct {
	// Role is --role.
	Role nodebinding.Role
	// NodeName is the environment's NODE_NAME; the socket role needs it.
	NodeName string
}

// Config is the effective configuration.
type Config struct {
	Process  Process
	Auth     Auth
	Settings Settings
}

// Load reads and checks both files. An empty settingsPath means that there is no settings file and that every default
// applies. The error names the file of each fault.
func Load(p Process, configPath, settingsPath string) (Config, error) {
	auth, err := os.ReadFile(configPath)
	if err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	settings := []byte("{}")
	if settingsPath != "" {
		if settings, err = os.ReadFile(settingsPath); err != nil {
			return Config{}, fmt.Errorf("read settings: %w", err)
		}
	}
	return parse(p, named{configPath, auth}, named{settingsPath, settings})
}

// Parse checks the contents of both files.
func Parse(p Process, auth, settings []byte) (Config, error) {
	return parse(p, named{"config.json", auth}, named{"settings", settings})
}

type named struct {
	name    string
	content []byte
}

func parse(p Process, auth, settings named) (Config, error) {
	if p.Role != nodebinding.Socket && p.Role != nodebinding.Deployment {
		return Config{}, fmt.Errorf("--role must be %s or %s", nodebinding.Socket, nodebinding.Deployment)
	}
	c := Config{Process: p}
	var settingsErr, authErr error
	c.Settings, settingsErr = ParseSettings(settings.content, p.Role)
	c.Auth, authErr = ParseAuth(auth.content, p, c.Settings.ReleaseAccounts)
	if p.Role == nodebinding.Socket && !c.Auth.Enabled() && c.Settings.Sinks.Kubernetes.Enabled {
		// Node binding needs no name when it is off, but this sink writes to the node that bears it, and to no other.
		if faults := nodeNameFaults(p.NodeName); len(faults) > 0 {
			authErr = errors.Join(authErr, faults)
		}
	}
	if err := errors.Join(within(auth.name, authErr), within(settings.name, settingsErr)); err != nil {
		return Config{}, err
	}
	return c, nil
}

func within(file string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", file, err)
}

// Rules are the node-binding rules of this configuration.
func (c Config) Rules() nodebinding.Rules {
	r := nodebinding.Rules{
		Role: c.Process.Role, CrossNode: nodebinding.NewAccounts(c.Auth.CrossNode...), FailOpen: c.Auth.FailOpen,
		LenientLiveness: !c.Settings.StrictLiveness,
	}
	if r.Role == nodebinding.Socket {
		r.OwnNode, r.RequireToken = c.Process.NodeName, c.Settings.Socket.RequireToken
	}
	if c.Settings.Publishers != nil {
		r.Publishers = nodebinding.NewAccounts(c.Settings.Publishers...)
	}
	return r
}
