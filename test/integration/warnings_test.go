//go:build unix

package integration

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/kubernetes"
)

// warnings are what the API server has warned a client of.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// only says whether every warning has this text in it and there is one, or, for no text, that there was none.
func (w *warnings) only(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if text == "" {
		return len(w.texts) == 0
	}
	return len(w.texts) > 0 && !slices.ContainsFunc(w.texts, func(t string) bool { return !strings.Contains(t, text) })
}

// String shows every warning.
func (w *warnings) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.texts, "\n")
}

// hearing is editor with the warnings that the user gets to see.
func hearing(t *testing.T, user, namespace string) (*kubernetes.Clientset, *warnings) {
	t.Helper()
	grant(t, namespace, "edit", user)
	heard := &warnings{}
	config, err := controlPlane(t).ConfigFor(user)
	if err == nil {
		config.WarningHandler = heard
	}
	return clientset(t, config, err), heard
}
