package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/doctor"
	"github.com/lanyard-k8s/lanyard/doctor/intake"
	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/policy"
	"github.com/lanyard-k8s/lanyard/preview"
	"github.com/lanyard-k8s/lanyard/webhook/settings"
)

// defaultConfig is the webhook's configuration when --config is not given: both roles on, all else by default.
const defaultConfig = `
publisher: {enabled: true}
job: {enabled: true, baseURL: "https://lanyard-exchange.lanyard.svc:8443"}
`

// loadConfig reads the webhook's configuration file, or the default one for an empty name.
func loadConfig(file string) (settings.Settings, error) {
	raw := []byte(defaultConfig)
	if file != "" {
		var err error
		if raw, err = readFile(file, nil); err != nil {
			return settings.Settings{}, err
		}
	}
	s, err := settings.Parse(raw)
	if err != nil {
		return s, fmt.Errorf("reading %s: %w", file, err)
	}
	return s, nil
}

// newPreviewer makes a previewer of the flags, and refuses flags that contradict each other.
func newPreviewer(f previewFlags) (preview.Previewer, error) {
	roles, err := checkPreviewFlags(f)
	if err != nil {
		return preview.Previewer{}, err
	}
	s, err := loadConfig(f.config)
	if err != nil {
		return preview.Previewer{}, err
	}
	for _, role := range roles {
		if (role == mutate.Job && s.Rules.Job == nil) || (role == mutate.Publisher && s.Rules.Publisher == nil) {
			return preview.Previewer{}, fmt.Errorf("--as %s: %s switches this role off", role, f.config)
		}
	}
	return preview.Previewer{
		Rules: s.Rules, Who: preview.Who{Roles: roles, NamespaceLabels: f.labels},
		Namespace: f.namespace, Username: f.user, Stamped: stampedKinds(s),
	}, nil
}

func checkPreviewFlags(f previewFlags) ([]mutate.Role, error) {
	roles, err := preview.ParseRoles(f.as)
	switch {
	case err != nil:
		return nil, err
	case len(f.files) == 0:
		return nil, errors.New("no manifest given: use -f FILE, or -f - for standard input")
	case len(roles) > 0 && f.hasLabels:
		return nil, errors.New("--as and --namespace-labels contradict each other: give one of them")
	case len(roles) == 0 && !f.hasLabels && f.config == "":
		return nil, errors.New("say who the pods are: --as publisher, --as job, or --namespace-labels")
	case f.user == "":
		return nil, errors.New("--user is empty: leave it out, or give a username")
	}
	return roles, nil
}

// stampedKinds are the kinds that bear the creator's stamp, with the accounts that make their pods.
func stampedKinds(s settings.Settings) []preview.Kind {
	var kinds []preview.Kind
	for _, gk := range s.Stamped() {
		kind := preview.Kind{GroupKind: gk}
		for _, k := range s.JobKinds {
			if k.Group == gk.Group && k.Kind == gk.Kind {
				kind.Creators = k.PodCreators
			}
		}
		kinds = append(kinds, kind)
	}
	return kinds
}

// loadConfigured reads the webhook's configuration for doctor: what the webhook does, and the policies that the chart
// installs beside it.
func loadConfigured(raw []byte) (intake.Configured, error) {
	s, err := settings.Parse(raw)
	if err != nil {
		return intake.Configured{}, err
	}
	c := intake.Configured{
		Settings: doctor.Settings{Rules: s.Rules},
		Policies: policy.Settings{Mode: policy.Mode(s.Rules.Mode), Jobs: s.ManagedJobs},
	}
	if p := s.Rules.Publisher; p != nil {
		c.Policies.PublisherAudience = p.Audience
		c.Policies.Publishers = p.Listed
		c.Policies.PublisherAccounts = p.CrossNode
		for _, username := range p.CrossNode {
			if a, err := wire.ParseUsername(username); err == nil { // settings.Parse refuses others
				c.Settings.Entitled = append(c.Settings.Entitled, a.String())
			}
		}
	}
	if j := s.Rules.Job; j != nil {
		c.Policies.JobAudience = j.Audience
		c.Policies.JobTokenFile = j.MountPath + "/" + wire.TokenFile
	}
	for _, k := range s.JobKinds {
		c.Policies.Kinds = append(c.Policies.Kinds, policy.Kind{
			Group: k.Group, Kind: k.Kind, Resource: k.Resource, PodCreators: k.PodCreators, AdoptionLabels: k.AdoptionLabels,
		})
	}
	for _, d := range s.Delegating {
		controller := policy.Controller{Identity: d.Identity}
		for _, parent := range d.Parents {
			controller.Parents = append(controller.Parents, parent.Group+"/"+parent.Kind)
		}
		c.Policies.Delegating = append(c.Policies.Delegating, controller)
	}
	c.Settings.Stamped = stampedResources(s)
	return c, nil
}

// stampedResources names the resources ("group/resource") of the stamped kinds.
func stampedResources(s settings.Settings) []string {
	var resources []string
	for _, gk := range s.Stamped() {
		resource := strings.ToLower(gk.Kind) + "s"
		for _, k := range s.JobKinds {
			if k.Group == gk.Group && k.Kind == gk.Kind && k.Resource != "" {
				resource = k.Resource
			}
		}
		resources = append(resources, gk.Group+"/"+resource)
	}
	return resources
}
