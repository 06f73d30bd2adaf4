package intake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/doctor"
	"github.com/lanyard-k8s/lanyard/policy"
)

// Configured is what the webhook's configuration tells: what the installation does, and the policies it calls for.
type Configured struct {
	Settings doctor.Settings
	Policies policy.Settings
}

// Loader reads the webhook's configuration file.
type Loader func(raw []byte) (Configured, error)

// errNoConfig says that no ConfigMap of the release holds a configuration.
var errNoConfig = errors.New("no ConfigMap in the release's namespace holds the webhook's configuration")

// settings finds the webhook's configuration and the policies that it calls for. Only a configuration that the person
// gave, and that is bad, is an error.
func (t *taker) settings(ctx context.Context) error {
	configured, err := t.configured(ctx)
	if err != nil {
		if len(t.Config) > 0 {
			return fmt.Errorf("reading the webhook's configuration: %w", err)
		}
		t.missed(doctor.SourceSettings, err)
		configured = Configured{Policies: policy.Settings{Jobs: true}}
	}
	excluded := t.excluded()
	t.snapshot.Settings = configured.Settings
	t.snapshot.Settings.Excluded = excluded
	for _, p := range policy.All(t.inForce(configured.Policies, excluded)) {
		t.snapshot.ExpectedPolicies = append(t.snapshot.ExpectedPolicies, *p.Policy)
		t.snapshot.ExpectedBindings = append(t.snapshot.ExpectedBindings, *p.Binding)
	}
	return nil
}

// inForce fills in what the webhook's configuration does not tell: the accounts of the chart's own programs, the excluded
// namespaces as the entries have them, and lists that only the policies hold.
func (t *taker) inForce(s policy.Settings, excluded []string) policy.Settings {
	for _, name := range []string{wire.AccountSocketConnector, wire.AccountDeploymentConnector, wire.AccountExchange} {
		s.ReleaseAccounts = append(s.ReleaseAccounts, "system:serviceaccount:"+t.snapshot.Release+":"+name)
	}
	s.TokenRequesters, s.Submitters = []string{doctor.Unknown}, []string{doctor.Unknown}
	s.SocketConnector = wire.Account{Namespace: t.snapshot.Release, Name: wire.AccountSocketConnector}.Username()
	s.ForeignConditions = []string{doctor.Unknown}
	s.TemplateEditors, s.TemplatePaths = []string{doctor.Unknown}, []string{doctor.Unknown}
	s.ExcludedNamespaces = append(excluded, t.snapshot.Release)
	if len(excluded) == 0 { // no entry tells
		s.ExcludedNamespaces = []string{doctor.Unknown}
	}
	return s
}

func (t *taker) configured(ctx context.Context) (Configured, error) {
	if len(t.Config) > 0 {
		return t.Load(t.Config)
	}
	if t.snapshot.Release == "" {
		return Configured{}, errors.New("the release's namespace is not known")
	}
	list, err := t.Kube.CoreV1().ConfigMaps(t.snapshot.Release).List(ctx, metav1.ListOptions{})
	if err != nil {
		return Configured{}, err
	}
	for _, m := range list.Items {
		for _, key := range slices.Sorted(maps.Keys(m.Data)) {
			if !strings.HasSuffix(key, ".yaml") {
				continue
			}
			// A file that is not strictly the webhook's configuration is another program's.
			if configured, err := t.Load([]byte(m.Data[key])); err == nil {
				return configured, nil
			}
		}
	}
	return Configured{}, errNoConfig
}

// excluded are the namespaces that the entries' own selectors leave out by name, besides the built-in ones.
func (t *taker) excluded() []string {
	var names []string
	add := func(selector *metav1.LabelSelector) {
		if selector == nil {
			return
		}
		for _, r := range selector.MatchExpressions {
			if r.Key == wire.LabelNamespaceName && r.Operator == metav1.LabelSelectorOpNotIn {
				names = append(names, r.Values...)
			}
		}
	}
	if t.snapshot.Mutating != nil {
		for _, w := range t.snapshot.Mutating.Webhooks {
			add(w.NamespaceSelector)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
