// Package liveness says whether the pod that a token belongs to is still alive, and whether the node in it is still the
// same machine, from watches of the API server: at once, without a call. TokenReview alone cannot say so in time: a deleted
// pod's token stays accepted for ten seconds after its last review, a terminating pod's for a minute past its end, an ended
// pod's for as long as the object is kept, and a re-created node's for ever.
//
// It is built on client-go's reflector with a store of its own rather than on informers or controller-runtime's cache. Those
// keep whole objects, where a UID and a deadline do; they hide bookmarks and closed watches, which is how a watch that has
// gone silent is told from a quiet one; and their tombstones are worked out again here anyway, from UIDs instead of names,
// so that a pod re-created under the same name is another pod.
package liveness

import "time"

// State is what the watches know of one pod.
type State int

// The states. Only what a trustworthy watch shows is Alive; what is Dead stays dead whatever becomes of the watch.
const (
	// Unknown: no watch knows it, or the watch that did is not to be trusted. It is no refusal: ask the API server.
	Unknown State = iota
	// Alive: it exists, has not ended, and is not past its deletion time.
	Alive
	// Dead: it was seen to be deleted, to have ended or to be past its deletion time.
	Dead
)

// String is for test output and logs.
func (s State) String() string {
	switch s {
	case Alive:
		return "alive"
	case Dead:
		return "dead"
	default:
		return "unknown"
	}
}

// What a watch is held to. API servers send a bookmark about once a minute to a watch that has nothing else to say, unless
// nothing at all has happened to the resource since it was opened. So a bookmark that is late by reopenAfter has the watch
// opened again from where it was: an API server that answers is worth as much, and one that does not is found out.
const (
	bookmarkEvery = time.Minute
	reopenAfter   = 5 * time.Second
	silenceAtMost = 10 * time.Second
)

// Bounds of what is remembered about the dead.
const (
	// DefaultRemember is how long a dead pod is remembered that no watch shows any more: a day, within which most tokens end, and the
	// leeway that API servers give to expired ones.
	DefaultRemember = 24*time.Hour + 2*time.Minute
	// DefaultMaxDead is how many dead pods are remembered, about 10 MB of them. A pod that is forgotten is Unknown.
	DefaultMaxDead = 1 << 16
)
