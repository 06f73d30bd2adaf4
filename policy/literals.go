package policy

import (
	"encoding/json"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// literals are the settings as they stand in a policy: CEL texts (a list such as ["a","b"], or a quoted string) and a few
// whole lists. literalsOf fills them with values, templateLiterals with Helm actions.
type literals struct {
	publisherAudience string
	jobAudience       string
	protected         string // both audiences, less those whose role is off
	jobTokenFile      string
	publishers        string
	publisherAccounts string
	releaseAccounts   string
	tokenRequesters   string
	kinds             string // "group/Kind"
	adoptionLabels    string
	controllers       string // pod creators and delegating controllers
	submitters        string
	podCreators       string // {"group/Kind": [usernames]}: who creates a job kind's pods
	labelCreators     string // {"label": [usernames]}: who creates pods with an adoption label
	ownerKinds        string // {"group/Kind": [usernames]}: job kinds and parents, with the controllers in charge of them
	templateEditors   string
	templatePaths     string // "group/Kind:path"
	excluded          string // namespaces that are never managed
	socketConnector   string
	foreignConditions string

	excludedNamespaces []string
	reservedActions    []admissionregistrationv1.ValidationAction
	stamped            []admissionregistrationv1.NamedRuleWithOperations
}

// literalsOf writes the settings as literals.
func literalsOf(s Settings) literals {
	return literals{
		publisherAudience:  text(s.PublisherAudience),
		jobAudience:        text(s.JobAudience),
		protected:          text(given(s.PublisherAudience, s.JobAudience)),
		jobTokenFile:       text(s.JobTokenFile),
		publishers:         text(sorted(list(s.Publishers))),
		publisherAccounts:  text(sorted(list(s.PublisherAccounts))),
		releaseAccounts:    text(sorted(list(s.ReleaseAccounts))),
		tokenRequesters:    text(sorted(list(s.TokenRequesters))),
		kinds:              text(s.kindNames()),
		adoptionLabels:     text(s.adoptionLabels()),
		controllers:        text(s.controllers()),
		submitters:         text(sorted(list(s.Submitters))),
		podCreators:        text(s.podCreators()),
		labelCreators:      text(s.labelCreators()),
		ownerKinds:         text(s.ownerKinds()),
		templateEditors:    text(sorted(list(s.TemplateEditors))),
		templatePaths:      text(sorted(list(s.TemplatePaths))),
		excluded:           text(sorted(list(s.ExcludedNamespaces))),
		socketConnector:    text(s.SocketConnector),
		foreignConditions:  text(sorted(list(s.ForeignConditions))),
		excludedNamespaces: sorted(list(s.ExcludedNamespaces)),
		reservedActions:    s.reservedActions(),
		stamped:            s.stamped(),
	}
}

// text writes a value as CEL. JSON is CEL for strings, lists and maps of them, escapes included; and it is what Helm's toJson
// writes, so that both renderings agree byte for byte.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // strings, lists and maps of strings always marshal
		panic(err)
	}
	return string(b)
}

// list makes a nil list an empty one, so that it reads [] and not null.
func list(in []string) []string { return append([]string{}, in...) }

// given returns the non-empty ones.
func given(in ...string) []string {
	return slices.DeleteFunc(list(in), func(s string) bool { return s == "" })
}

// sorted makes a set of a list: lists that say the same give the same policy, whoever wrote them down.
func sorted(in []string) []string {
	slices.Sort(in)
	return slices.Compact(in)
}

func (s Settings) kindNames() []string {
	names := []string{}
	for _, k := range s.Kinds {
		names = append(names, k.name())
	}
	return sorted(names)
}

func (s Settings) adoptionLabels() []string {
	labels := []string{}
	for _, k := range s.Kinds {
		labels = append(labels, k.AdoptionLabels...)
	}
	return sorted(labels)
}

func (s Settings) controllers() []string {
	names := []string{}
	for _, k := range s.Kinds {
		names = append(names, k.PodCreators...)
	}
	for _, d := range s.Delegating {
		names = append(names, d.Identity)
	}
	return sorted(names)
}

// podCreators are each job kind's pod creators.
func (s Settings) podCreators() map[string][]string {
	of := map[string][]string{}
	for _, k := range s.Kinds {
		of[k.name()] = sorted(append(of[k.name()], k.PodCreators...))
	}
	return of
}

// labelCreators are the pod creators of the kinds that an adoption label belongs to.
func (s Settings) labelCreators() map[string][]string {
	of := map[string][]string{}
	for _, k := range s.Kinds {
		for _, label := range k.AdoptionLabels {
			of[label] = sorted(append(of[label], k.PodCreators...))
		}
	}
	return of
}

// ownerKinds are the job kinds and the parents, each with the controllers that are in charge of what it owns.
func (s Settings) ownerKinds() map[string][]string {
	of := s.podCreators()
	for _, d := range s.Delegating {
		for _, p := range d.Parents {
			of[p] = sorted(append(of[p], d.Identity))
		}
	}
	return of
}

func (s Settings) reservedActions() []admissionregistrationv1.ValidationAction {
	if s.Mode == Audit {
		return []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit, admissionregistrationv1.Warn}
	}
	return []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny} // unknown modes fail closed
}

// stamped are the rules of the stamped kinds: pods, the job kinds and their parents, each with its status, since a client
// may change annotations through either.
func (s Settings) stamped() []admissionregistrationv1.NamedRuleWithOperations {
	seen := map[string]bool{}
	var out []admissionregistrationv1.NamedRuleWithOperations
	add := func(group, resource string) {
		if key := group + "/" + resource; !seen[key] {
			seen[key] = true
			out = append(out, ruleFor(group, operations("CREATE", "UPDATE"), resource, resource+"/status"))
		}
	}
	add("", "pods")
	for _, k := range s.Kinds {
		add(k.Group, k.resource())
	}
	for _, d := range s.Delegating {
		for _, p := range d.Parents {
			group, kind, _ := strings.Cut(p, "/")
			add(group, s.parent(group, kind).resource())
		}
	}
	return out
}

// parent finds a parent kind's row, or makes one up from its name and the resource that some controller's row gives for it.
func (s Settings) parent(group, kind string) Kind {
	for _, k := range s.Kinds {
		if k.Group == group && k.Kind == kind {
			return k
		}
	}
	made := Kind{Group: group, Kind: kind}
	for _, d := range s.Delegating {
		if made.Resource == "" {
			made.Resource = d.Resources[made.name()]
		}
	}
	return made
}
