package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/provenance"
	"github.com/lanyard-k8s/lanyard/policy"
)

// stampedKinds are the job kinds and parents, with the resources that the policies match for them.
func stampedKinds(s policy.Settings, r provenance.Rules) map[provenance.GroupKind]string {
	resources, all := s.Resources(), map[provenance.GroupKind]string{}
	for _, k := range r.Stamped() {
		all[k] = resources[k.Group+"/"+k.Kind]
	}
	return all
}

// listed notes since when each job kind and parent is listed. The policies look at the listed kinds alone, so that a stamp on an object
// of any other kind is whatever its maker wrote, and listing the kind later is a change of lists, which moves no epoch. Since when is
// learned at the first look that finds all policies in order with the kind, with the margin that an epoch has, and forgotten at the first
// that finds them in order without it. While they are not in order, what is remembered stays.
//
// A database of an earlier version remembers no kinds; see inherited.
func (g *guard) listed(ctx context.Context, next *standing) error {
	isKind := func(key string, _ delegation.Seen) bool { return strings.HasPrefix(key, kindPrefix) }
	known := maps.Clone(g.now.seen)
	maps.DeleteFunc(known, func(key string, s delegation.Seen) bool { return !isKind(key, s) })
	next.seen = maps.Clone(next.seen)
	maps.DeleteFunc(next.seen, isKind)
	if next.state != InOrder {
		next.kinds = nil
		maps.Copy(next.seen, known)
		return nil
	}
	at, ok := g.clock.server()
	if !ok {
		return errClock
	}
	old := map[provenance.GroupKind]bool{}
	if len(known) == 0 && !g.now.epoch.IsZero() {
		var err error
		if old, err = g.inherited(ctx); err != nil {
			return err
		}
	}
	next.kinds = map[provenance.GroupKind]metav1.Time{}
	for kind, resource := range g.kinds {
		since := known[kindPrefix+kind.String()]
		if since.UID != resource { // under another resource, its objects were not looked at
			from := at.Add(g.margin)
			if old[kind] {
				from = g.now.epoch
			}
			since = delegation.Seen{UID: resource, Generation: wholeSecond(from).Unix()}
		}
		next.seen[kindPrefix+kind.String()], next.kinds[kind] = since, metav1.Unix(since.Generation, 0)
	}
	return nil
}

// inherited are the kinds that count from the epoch of a database that remembers none: Jobs, which every version lists, and of Kubernetes'
// own the kinds through whose objects work was confirmed, lest an upgrade take every CronJob's identity away. Of any other nobody knows
// whether it was listed before, and of a custom one neither under which resource; those count from now.
func (g *guard) inherited(ctx context.Context) (map[provenance.GroupKind]bool, error) {
	old := map[provenance.GroupKind]bool{}
	var open []provenance.GroupKind
	for kind := range g.kinds {
		switch {
		case kind == provenance.GroupKind{Group: "batch", Kind: "Job"}:
			old[kind] = true
		case kind.Group == "batch":
			open = append(open, kind)
		}
	}
	if len(open) == 0 {
		return old, nil
	}
	confirmed, err := g.confirmed(ctx)
	if err != nil || len(confirmed) == 0 {
		return old, err
	}
	for _, kind := range open {
		uids, err := g.uids(ctx, kind)
		if err != nil && !errors.Is(err, errUndefined) && !errors.Is(err, errMisnamed) {
			return nil, fmt.Errorf("find out whether %s was listed: %w", kind, err)
		}
		old[kind] = slices.ContainsFunc(uids, func(uid string) bool { return confirmed[uid] })
	}
	return old, nil
}

// confirmed are the UIDs of all objects that work was confirmed for, and of the parents whose submitter it took.
func (g *guard) confirmed(ctx context.Context) (map[string]bool, error) {
	all := map[string]bool{}
	for after := ""; ; {
		page, err := g.store.Submissions(ctx, delegation.SubmissionQuery{After: after, Limit: delegation.MaxPage})
		if err != nil {
			return nil, fmt.Errorf("list what was confirmed: %w", err)
		}
		for _, s := range page {
			after = s.UID
			all[s.UID] = true
			if s.ViaUID != "" {
				all[s.ViaUID] = true
			}
		}
		if len(page) < delegation.MaxPage {
			return all, nil
		}
	}
}

// countFrom has the kinds and namespaces that this look has noted count from the epoch that it moves. The API server's time is told in
// whole seconds, so that two readings of it, one for them and one for the epoch, may be most of a second apart; a Job must not be older
// than its kind or its namespace in the very second from which pods are believed.
func (s *standing) countFrom(epoch time.Time, before map[string]delegation.Seen) {
	at := wholeSecond(epoch)
	later := func(key string) bool {
		seen := s.seen[key]
		if seen == before[key] || seen.Generation <= at.Unix() {
			return false
		}
		s.seen[key] = delegation.Seen{UID: seen.UID, Generation: at.Unix()}
		return true
	}
	for kind := range s.kinds {
		if later(kindPrefix + kind.String()) {
			s.kinds[kind] = metav1.NewTime(at)
		}
	}
	for name := range s.managed {
		if later(sincePrefix + name) {
			s.managed[name] = at
		}
	}
}

// wholeSecond is the first whole second that is not before a time as it is stored, cut to milliseconds as the epoch is; creation times are
// whole.
func wholeSecond(t time.Time) time.Time {
	t = delegation.Moment(t)
	if cut := t.Truncate(time.Second); cut.Before(t) {
		return cut.Add(time.Second)
	}
	return t
}
