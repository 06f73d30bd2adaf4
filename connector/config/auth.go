package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/internal/config"
)

// The keys of config.json that the connector reads. They are compared exactly; every other key is somebody else's.
const (
	KeyEnabled   = "enableNodeBindingAuth"
	KeyAudience  = "AuthAudience"
	KeyMode      = "AuthMode"
	KeyFailOpen  = "AuthFailOpenOnUnavailable"
	KeyCrossNode = "AuthCrossNodeServiceAccounts"
)

// envNodeName is named in faults like a key.
const envNodeName = "NODE_NAME"

// Auth is what config.json says. The zero Auth enforces and lists nobody.
type Auth struct {
	// Mode is Disabled when enableNodeBindingAuth is false, and Enforce always in the deployment role.
	Mode nodebinding.Mode
	// Audience is the one audience that a token must be made for.
	Audience string
	// FailOpen lets an outage of the review degrade a caller to its own node. Never set in the deployment role.
	FailOpen bool
	// CrossNode are the canonical usernames that may name other nodes, each once, in the file's order.
	CrossNode []string
	// Warnings are to be logged at start, one line each.
	Warnings []Warning
}

// Warning is a full sentence about a configuration that is accepted and should be noticed.
type Warning string

// The warnings whose text is fixed.
const (
	// WarnDisabled: node binding is off.
	WarnDisabled Warning = "node binding is off (enableNodeBindingAuth: false): any caller may report on any node, and blank node names are not filled in; this is not a supported production configuration"
	// WarnDeploymentEnforces: a setting of the socket role was given to a deployment.
	WarnDeploymentEnforces Warning = "AuthMode audit and AuthFailOpenOnUnavailable are settings of the socket role; the deployment role always enforces"
)

// Enabled says whether node binding is on.
func (a Auth) Enabled() bool { return a.Mode != nodebinding.Disabled }

// ParseAuth reads config.json. release are the usernames of Lanyard's own service accounts, which may not be listed. The
// error is of type Faults of the room internal/config and holds all faults; an Auth is returned only when there is none.
// When node binding is off, nothing else is read.
func ParseAuth(raw []byte, p Process, release []string) (Auth, error) {
	f := readMembers(raw)
	if f.unreadable() {
		return Auth{}, f.err()
	}
	enabled, decided := f.boolean(KeyEnabled, required)
	if decided && !enabled {
		if p.Role != nodebinding.Socket {
			f.fault(KeyEnabled, "must be true for the deployment role: without tokens there is no node to pin a caller to")
		}
		return f.finish(Auth{Mode: nodebinding.Disabled, Warnings: []Warning{WarnDisabled}})
	}
	a := Auth{
		Audience: f.text(KeyAudience), Mode: f.mode(KeyMode), CrossNode: f.usernames(KeyCrossNode, release),
		Warnings: f.lookAlikes(),
	}
	a.FailOpen, _ = f.boolean(KeyFailOpen, optional)
	switch {
	case p.Role == nodebinding.Deployment && (a.Mode == nodebinding.Audit || a.FailOpen):
		a.Mode, a.FailOpen = nodebinding.Enforce, false
		a.Warnings = append(a.Warnings, WarnDeploymentEnforces)
	case p.Role == nodebinding.Socket:
		f.faults = append(f.faults, nodeNameFaults(p.NodeName)...)
	}
	return f.finish(a)
}

// nodeNameFaults says what is wrong with NODE_NAME for a connector that serves one node.
func nodeNameFaults(name string) config.Faults {
	switch {
	case name == "":
		return config.Faults{{Path: envNodeName, Message: "the environment must name the node that the connector runs on (fieldRef spec.nodeName)"}}
	case !wire.DNSSubdomain(name):
		return config.Faults{{Path: envNodeName, Message: "is not a node's name; it is compared byte for byte with the node in a token and would match none"}}
	default:
		return nil
	}
}

// mode reads AuthMode.
func (f *members) mode(key string) nodebinding.Mode {
	v, given := f.value(key, optional)
	if !given {
		return nodebinding.Enforce
	}
	s, ok := v.text()
	mode := nodebinding.Mode(s)
	if !ok || (mode != nodebinding.Enforce && mode != nodebinding.Audit) {
		f.fault(key, `must be "enforce" or "audit", in lower case and exactly so`)
		return nodebinding.Enforce
	}
	return mode
}

// usernames reads the cross-node list.
func (f *members) usernames(key string, release []string) []string {
	v, given := f.value(key, required)
	if !given {
		return nil
	}
	entries, ok := v.list()
	if !ok {
		f.fault(key, "must be a list of canonical usernames; write [] for nobody")
		return nil
	}
	out := make([]string, 0, len(entries))
	for i, entry := range entries {
		s, ok := entry.text()
		at := fmt.Sprintf("%s[%d]", key, i)
		if !ok {
			f.faultAt(at, entry.line, "must be a string")
			continue
		}
		_, err := wire.ParseUsername(s)
		switch {
		case err != nil:
			f.faultAt(at, entry.line, "%v", err)
		case slices.Contains(release, s):
			f.faultAt(at, entry.line, "is one of Lanyard's own service accounts, which never report about other nodes")
		case !slices.Contains(out, s):
			out = append(out, s)
		}
	}
	return out
}

// lookAlikes warns of keys that differ from ours in case alone. They are ignored like every other unknown key, which is
// seldom what their author wanted.
func (f *members) lookAlikes() []Warning {
	var out []Warning
	ours := []string{KeyEnabled, KeyAudience, KeyMode, KeyFailOpen, KeyCrossNode}
	for _, name := range f.order {
		for _, key := range ours {
			if name != key && strings.EqualFold(name, key) {
				out = append(out, Warning(fmt.Sprintf("the key %q is ignored; the connector reads %q", name, key)))
			}
		}
	}
	return out
}
