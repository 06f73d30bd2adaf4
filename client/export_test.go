package client

import "github.com/lanyard-k8s/lanyard/client/internal/reach"

// LookAgain makes the next request look at the CA file.
func LookAgain(w *Workload) {
	t, _ := w.o.Transport.(*reach.Transport)
	t.LookAgain()
}
