package keys_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lanyard-k8s/lanyard/exchange/keys"
	"github.com/lanyard-k8s/lanyard/internal/mint"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func timing() mint.Timing {
	return mint.Timing{MaxAge: 5 * time.Minute, TTL: 5 * time.Minute, Leeway: time.Minute, Retention: time.Hour, Every: 24 * time.Hour}
}

// secrets is one Secret, with resourceVersions.
type secrets struct {
	mu      sync.Mutex
	object  *corev1.Secret // nil: there is none
	version int
	fail    error // the answer to everything, if set
	failPut error // the answer to updates, if set
	updates int
}

func resource() schema.GroupResource { return schema.GroupResource{Resource: "secrets"} }

func (s *secrets) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return nil, s.fail
	}
	if s.object == nil || s.object.Name != name {
		return nil, apierrors.NewNotFound(resource(), name)
	}
	return s.object.DeepCopy(), nil
}

func (s *secrets) Update(_ context.Context, o *corev1.Secret, _ metav1.UpdateOptions) (*corev1.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.fail != nil:
		return nil, s.fail
	case s.failPut != nil:
		return nil, s.failPut
	case o.ResourceVersion != s.object.ResourceVersion:
		return nil, apierrors.NewConflict(resource(), o.Name, nil)
	}
	s.version++
	s.updates++
	s.object = o.DeepCopy()
	s.object.ResourceVersion = strconv.Itoa(s.version)
	return s.object.DeepCopy(), nil
}

// empty is the Secret as the chart makes it.
func empty() *secrets {
	return &secrets{object: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "keys", ResourceVersion: "0"}}}
}

func secretShelf(t *testing.T, s *secrets) keys.Shelf {
	t.Helper()
	shelf, err := keys.NewSecret(s, "keys")
	must(t, err)
	return shelf
}

func directoryShelf(t *testing.T) keys.Shelf {
	t.Helper()
	shelf, err := keys.NewDirectory(t.TempDir() + "/keys")
	must(t, err)
	return shelf
}

func keeper(t *testing.T, shelf keys.Shelf, now func() time.Time, told func(keys.Outcome)) *keys.Keeper {
	t.Helper()
	k, err := keys.NewKeeper(shelf, keys.Options{Alg: mint.ES256, Timing: timing(), Now: now, Rotated: told})
	must(t, err)
	return k
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
