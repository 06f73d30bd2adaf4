package reconcile

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/provenance"
)

// epochMargin is added to the API server's time when the policies are in order again: each API server learns of them by a watch, and
// clocks differ. Another second makes up for the Date's being cut.
const epochMargin = 10*time.Second + time.Second

// policySuffix and bindingSuffix keep a policy and its binding apart in what is remembered, sincePrefix and kindPrefix the namespaces
// and the kinds.
const (
	policySuffix  = "#policy"
	bindingSuffix = "#binding"
	sincePrefix   = "namespace/"
	kindPrefix    = "kind/"
)

// leftOut stands for the UID of a namespace that is excluded by name. everyName, the namespace without a name, says that all of them are
// noted, labelled or not.
const (
	leftOut   = "excluded"
	everyName = sincePrefix
)

// guard knows how the policies stand, since when, which namespaces are managed and which kinds are listed since when. All that it says
// was read from the API server after it was asked.
type guard struct {
	reads    reads
	store    delegation.Store
	clock    *serverClock
	expected []expectation
	excluded map[string]bool
	kinds    map[provenance.GroupKind]string // the job kinds and parents, with the resources that the policies match for them
	margin   time.Duration                   // put upon the API server's time when the epoch moves
	log      logr.Logger
	changed  func(from, to standing)                                       // told of every change
	uids     func(context.Context, provenance.GroupKind) ([]string, error) // of all objects of a kind

	one sync.Mutex // held while checking
	now standing   // under one

	last atomic.Pointer[standing]

	looks flights[struct{}, standing]
}

// standing is what one check found. It is not changed afterwards.
type standing struct {
	state   State
	epoch   time.Time
	seen    map[string]delegation.Seen
	names   []string                             // of the policies that are not in order
	managed map[string]time.Time                 // since when
	kinds   map[provenance.GroupKind]metav1.Time // since when; none while the policies are not in order
}

// guards is what the judge is told about objects of a namespace.
func (s standing) guards(namespace string) provenance.Guards {
	since, managed := s.managed[namespace]
	return provenance.Guards{
		InOrder: s.state == InOrder, Epoch: metav1.NewTime(s.epoch), Since: metav1.NewTime(since), Managed: managed, Kinds: s.kinds,
	}
}

// fresh is a look that began after the call.
func (g *guard) fresh(ctx context.Context) (standing, error) {
	return g.looks.fresh(ctx, struct{}{}, func(ctx context.Context, _ struct{}) (standing, error) { return g.inspect(ctx) })
}

// load takes over what the store remembers; a new leader begins with it.
func (g *guard) load(ctx context.Context) error {
	saved, err := g.store.Guard(ctx)
	if err != nil {
		return fmt.Errorf("load the guard: %w", err)
	}
	g.one.Lock()
	defer g.one.Unlock()
	g.looks.begin(ctx)
	g.now = standing{epoch: saved.Epoch, seen: maps.Clone(saved.Policies)}
	return nil
}

// inspect looks at policies and namespaces. If every policy is of the version that was found in order before, that is all.
func (g *guard) inspect(ctx context.Context) (standing, error) {
	g.one.Lock()
	defer g.one.Unlock()
	seen, err := g.reads.glance(ctx)
	if err != nil {
		return standing{}, err
	}
	next := standing{state: g.now.state, epoch: g.now.epoch, seen: g.now.seen, names: g.now.names}
	if g.now.state != InOrder || !g.unchanged(seen.versions) {
		if next, err = g.compare(ctx); err != nil {
			return standing{}, err
		}
	}
	if err := g.namespaces(seen.managed, &next); err != nil {
		return standing{}, err
	}
	if err := g.listed(ctx, &next); err != nil {
		return standing{}, err
	}
	return g.settle(ctx, next)
}

func (g *guard) unchanged(versions map[string]delegation.Seen) bool {
	for _, e := range g.expected {
		name := e.want.Policy.Name
		for _, key := range []string{name + policySuffix, name + bindingSuffix} {
			if v, ok := versions[key]; !ok || v != g.now.seen[key] {
				return false
			}
		}
	}
	return true
}

// compare reads every policy and says how they stand together.
func (g *guard) compare(ctx context.Context) (standing, error) {
	policies, bindings, err := g.reads.policies(ctx)
	if err != nil {
		return standing{}, err
	}
	next := standing{state: InOrder, epoch: g.now.epoch, seen: map[string]delegation.Seen{}}
	for _, e := range g.expected {
		name := e.want.Policy.Name
		p, b := policies[name], bindings[name]
		if one := e.compare(p, b); one != InOrder {
			next.state, next.names = worse(next.state, one), append(next.names, name)
		}
		if p != nil && b != nil {
			next.seen[name+policySuffix], next.seen[name+bindingSuffix] = versionOf(p), versionOf(b)
		}
	}
	return next, nil
}

func versionOf(o metav1.Object) delegation.Seen {
	return delegation.Seen{UID: string(o.GetUID()), Generation: o.GetGeneration()}
}

// explained says whether nothing can have happened to a policy between two looks that both found it good enough: it is the same
// object, and of the same version or the very next.
func explained(before, now delegation.Seen) bool {
	return before.UID == now.UID && (before.Generation == now.Generation || before.Generation+1 == now.Generation)
}

// version says whether what is remembered under a key is the version of a policy or binding.
func version(key string) bool {
	return !strings.HasPrefix(key, sincePrefix) && !strings.HasPrefix(key, kindPrefix)
}

// keepVersions is what a look found, with the versions that were remembered before it.
func keepVersions(before, found map[string]delegation.Seen) map[string]delegation.Seen {
	all := maps.Clone(found)
	maps.DeleteFunc(all, func(key string, _ delegation.Seen) bool { return version(key) })
	for key, seen := range before {
		if version(key) {
			all[key] = seen
		}
	}
	return all
}

// settle compares a look with what is remembered, moves the epoch if it must move, and saves what has changed.
func (g *guard) settle(ctx context.Context, next standing) (standing, error) {
	before := g.now
	moves := before.state == Drift || next.epoch.IsZero()
	for key, now := range next.seen {
		if version(key) && !explained(before.seen[key], now) {
			moves = true
		}
	}
	if next.state != InOrder {
		// The versions that were in order stay, so that nothing but one change explains what comes next. Where lists differ, that is a
		// program whose settings are these lists; policies that come back to the lists of before have changed twice.
		next.seen, moves = keepVersions(before.seen, next.seen), false
	}
	if moves || !maps.Equal(before.seen, next.seen) {
		save := delegation.Guard{Policies: next.seen}
		if moves {
			at, ok := g.clock.server()
			if !ok {
				return standing{}, errClock
			}
			save.Epoch = at.Add(g.margin)
			next.countFrom(save.Epoch, before.seen)
		}
		saved, err := g.store.Advance(ctx, save)
		if err != nil {
			return standing{}, fmt.Errorf("save the guard: %w", err)
		}
		next.epoch = saved.Epoch
	}
	g.now = next
	g.last.Store(&next)
	if before.state != next.state || !before.epoch.Equal(next.epoch) {
		g.changed(before, next)
	}
	return next, nil
}

// namespaces notes since when each managed namespace is managed. It is learned once, when the namespace is first seen so, and
// forgotten when it is no longer: what was made in between stood under no policy. (A label that is taken off and put back between two
// looks keeps its time. Only platform admins can do that.)
//
// One that is left out by name may bear the label all the same, and may be given it at any time. So every name that is left out is noted,
// labelled or not, and stays noted until a look finds the namespace labelled, left out no more, and all policies in order: it counts from
// then, with the margin that an epoch has. Before, the policies that stood may still have been those that left it out.
func (g *guard) namespaces(spaces []*metav1.PartialObjectMetadata, next *standing) error {
	at, ok := g.clock.server()
	if !ok {
		return errClock
	}
	// A database of an earlier version has noted the labelled ones alone: any other that it does not know may have been left out.
	_, complete := g.now.seen[everyName]
	unsure := !complete && !g.now.epoch.IsZero()
	seen := g.leftOut(next)
	next.managed = map[string]time.Time{}
	for _, space := range spaces {
		if space.DeletionTimestamp != nil || g.excluded[space.Name] {
			continue
		}
		key := sincePrefix + space.Name
		since := g.now.seen[key]
		known := since.UID == string(space.UID)
		switch out := since.UID == leftOut || unsure && !known; {
		case out && next.state != InOrder:
			seen[key], next.managed[space.Name] = delegation.Seen{UID: leftOut}, time.Time{} // managed, and nothing is confirmed
			continue
		case out:
			since = delegation.Seen{UID: string(space.UID), Generation: wholeSecond(at.Add(g.margin)).Unix()}
		case !known:
			since = delegation.Seen{UID: string(space.UID), Generation: labelled(space, at).Unix()}
		}
		seen[key], next.managed[space.Name] = since, time.Unix(since.Generation, 0)
	}
	next.seen = seen
	return nil
}

// leftOut is what a look has found, and of the namespaces those that are left out by name, or were.
func (g *guard) leftOut(next *standing) map[string]delegation.Seen {
	seen := map[string]delegation.Seen{}
	for key, found := range next.seen {
		if !strings.HasPrefix(key, sincePrefix) {
			seen[key] = found
		}
	}
	for key, noted := range g.now.seen {
		if strings.HasPrefix(key, sincePrefix) && noted.UID == leftOut {
			seen[key] = noted
		}
	}
	for name := range g.excluded {
		seen[sincePrefix+name] = delegation.Seen{UID: leftOut}
	}
	if next.state == InOrder {
		seen[everyName] = delegation.Seen{UID: leftOut}
	}
	return seen
}

// policyList and bindingList are policies and bindings by name.
type (
	policyList  = map[string]*admissionregistrationv1.ValidatingAdmissionPolicy
	bindingList = map[string]*admissionregistrationv1.ValidatingAdmissionPolicyBinding
)

// manages says whether a namespace was managed at the last look.
func (g *guard) manages(namespace string) bool {
	s := g.last.Load()
	if s == nil {
		return false
	}
	_, ok := s.managed[namespace]
	return ok
}

// inOrder says whether the policies were in order at the last look.
func (g *guard) inOrder() bool {
	s := g.last.Load()
	return s != nil && s.state == InOrder
}
