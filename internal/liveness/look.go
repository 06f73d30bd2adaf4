package liveness

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// Look asks the API server about a pod that State does not know, one call each. A watch of running pods shows none that had ended before
// it began, and a review goes on accepting such a pod's token for as long as the object is kept: Look says Dead of a pod that does not run
// under this UID, and remembers that. An error says that the API server could not be asked; nothing follows from it.
//
// Where every pod is watched, ended ones included, or there is no right to look elsewhere (NewNodePods), it says Unknown.
func (p *Pods) Look(ctx context.Context, namespace, name, uid string) (State, error) {
	if p.find == nil {
		return Unknown, nil
	}
	found, err := p.find(ctx, namespace, name)
	if err != nil {
		return Unknown, fmt.Errorf("look for a running pod: %w", err)
	}
	now, runs := p.options.Clock.Now(), false
	err = meta.EachListItem(found, func(o runtime.Object) error {
		seen, err := look(o)
		if err != nil {
			return err
		}
		runs = runs || seen.uid == uid && (seen.deletion == 0 || now.UnixNano() <= seen.deletion)
		return nil
	})
	switch {
	case err != nil:
		return Unknown, err
	case runs:
		return Alive, nil
	}
	p.foundDead(uid, now)
	return Dead, nil
}

// foundDead remembers a pod that was looked for in vain, unless a watch has shown it meanwhile.
func (p *Pods) foundDead(uid string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, live := p.live[uid]; !live {
		p.dead.bury(uid, now)
	}
}
