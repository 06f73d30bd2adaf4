package reconcile

import (
	"maps"
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
// A database of an earlier version remembers no kinds. What Kubernetes itself defines then counts from the epoch, lest an upgrade take
// every CronJob's identity away; whether a custom kind was listed before nobody knows, and it counts from now.
func (g *guard) listed(next *standing) error {
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
	next.kinds = map[provenance.GroupKind]metav1.Time{}
	for kind, resource := range g.kinds {
		since := known[kindPrefix+kind.String()]
		if since.UID != resource { // under another resource, its objects were not looked at
			from := at.Add(g.margin)
			if len(known) == 0 && !g.now.epoch.IsZero() && kind.Group == "batch" {
				from = g.now.epoch
			}
			since = delegation.Seen{UID: resource, Generation: wholeSecond(from).Unix()}
		}
		next.seen[kindPrefix+kind.String()], next.kinds[kind] = since, metav1.Unix(since.Generation, 0)
	}
	return nil
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
