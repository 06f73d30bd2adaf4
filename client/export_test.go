package client

import (
	"time"

	"github.com/lanyard-k8s/lanyard/client/internal/reach"
)

// LookAgain looks at the CA file, as is done every half minute.
func LookAgain(w *Workload) {
	t, _ := w.o.Transport.(*reach.Transport)
	t.Look()
}

// PauseFor makes the pause after a failure as long as a test needs it.
func PauseFor(w *Workload, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = time.Now().Add(d)
}
