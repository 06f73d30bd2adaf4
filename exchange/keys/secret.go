package keys

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Secrets is what is asked of the API server: one namespace's Secrets, as client-go has them.
type Secrets interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Secret, error)
	Update(ctx context.Context, s *corev1.Secret, o metav1.UpdateOptions) (*corev1.Secret, error)
}

// secretTimeout bounds one request, secretTries how often an update is begun again where somebody else was faster.
const (
	secretTimeout = 5 * time.Second
	secretTries   = 8
)

// Secret is the shelf in a Secret. It must exist: the account may get and update this one, and create none.
type Secret struct {
	api  Secrets
	name string
}

// NewSecret is a shelf in the Secret of this name.
func NewSecret(api Secrets, name string) (*Secret, error) {
	if api == nil || name == "" {
		return nil, errors.New("keys: a client and a Secret's name are needed")
	}
	return &Secret{api: api, name: name}, nil
}

// Read reads the Secret.
func (s *Secret) Read(ctx context.Context) (State, error) {
	_, state, err := s.get(ctx)
	return state, err
}

func (s *Secret) get(ctx context.Context) (*corev1.Secret, State, error) {
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	object, err := s.api.Get(ctx, s.name, metav1.GetOptions{})
	if err != nil {
		return nil, State{}, s.failed("read", err)
	}
	state, err := decode(object.Data)
	if err != nil {
		return nil, State{}, fmt.Errorf("read the Secret %q: %w", s.name, err)
	}
	return object, state, nil
}

// Update compares by the Secret's resourceVersion.
func (s *Secret) Update(ctx context.Context, change func(State) (State, error)) (State, error) {
	for range secretTries {
		object, state, err := s.get(ctx)
		if err != nil {
			return State{}, err
		}
		next, err := change(state.clone())
		if err != nil {
			return state, err
		}
		err = s.put(ctx, object, next)
		if err == nil {
			return next, nil
		}
		if !apierrors.IsConflict(err) {
			return State{}, s.failed("update", err)
		}
	}
	return State{}, fmt.Errorf("update the Secret %q: %w: somebody else was always faster", s.name, ErrUnavailable)
}

func (s *Secret) put(ctx context.Context, object *corev1.Secret, next State) error {
	data, err := next.encode()
	if err != nil {
		return err
	}
	object = object.DeepCopy()
	maps.DeleteFunc(object.Data, func(name string, _ []byte) bool { return ours(name) })
	if object.Data == nil {
		object.Data = map[string][]byte{}
	}
	maps.Copy(object.Data, data)
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	_, err = s.api.Update(ctx, object, metav1.UpdateOptions{})
	return err
}

func ours(name string) bool {
	return name == ringName || name == markName || strings.HasSuffix(name, keySuffix)
}

// failed says what to do about an error of the API server, whose own text may quote what it was sent: only its kind is kept.
func (s *Secret) failed(doing string, err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s the Secret %q: %w: it does not exist; the chart makes an empty one, and so does `kubectl create secret generic %s`", doing, s.name, ErrUnavailable, s.name)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s the Secret %q: %w: the account needs get and update on it", doing, s.name, ErrUnavailable)
	case apierrors.IsInvalid(err):
		return fmt.Errorf("%s the Secret %q: %w: the API server refuses the content; is the Secret immutable?", doing, s.name, ErrUnsafe)
	default:
		return fmt.Errorf("%s the Secret %q: %w: %s", doing, s.name, ErrUnavailable, apierrors.ReasonForError(err))
	}
}
