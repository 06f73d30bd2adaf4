package certmanager

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// every is the time between two looks.
const every = 250 * time.Millisecond

// AddToScheme registers the types that this package's clients read.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(cmv1.AddToScheme(s), admissionregistrationv1.AddToScheme(s))
}

// WaitReady waits until every Certificate is Ready for its latest specification. When ctx ends first, the error names the
// first one that is not, with the reason and the message of its condition.
func WaitReady(ctx context.Context, c client.Reader, namespace string, names ...string) error {
	return until(ctx, func(ctx context.Context) error {
		for _, name := range names {
			if err := ready(ctx, c, types.NamespacedName{Namespace: namespace, Name: name}); err != nil {
				return err
			}
		}
		return nil
	})
}

func ready(ctx context.Context, c client.Reader, key types.NamespacedName) error {
	var cert cmv1.Certificate
	if err := get(ctx, c, key, &cert); err != nil {
		return fmt.Errorf("certificate %s: %w", key, err)
	}
	for _, cond := range cert.Status.Conditions {
		if cond.Type != cmv1.CertificateConditionReady {
			continue
		}
		if cond.Status == cmmeta.ConditionTrue && cond.ObservedGeneration == cert.Generation {
			return nil
		}
		return fmt.Errorf("certificate %s is not ready: %s: %s", key, cond.Reason, cond.Message)
	}
	return fmt.Errorf("certificate %s has no Ready condition yet; is cert-manager running?", key)
}

// WaitInjected waits until every webhook of both configurations of the name holds the authority's certificate ca (PEM).
// When ctx ends first, the error names the first webhook that does not.
func WaitInjected(ctx context.Context, c client.Reader, name string, ca []byte) error {
	want, err := blocks(ca)
	if err != nil {
		return fmt.Errorf("read authority: %w", err)
	}
	return until(ctx, func(ctx context.Context) error { return injected(ctx, c, name, want) })
}

func injected(ctx context.Context, c client.Reader, name string, want [][]byte) error {
	key := types.NamespacedName{Name: name}
	var mutating admissionregistrationv1.MutatingWebhookConfiguration
	if err := get(ctx, c, key, &mutating); err != nil {
		return fmt.Errorf("mutating webhook configuration %s: %w", name, err)
	}
	for i := range mutating.Webhooks {
		w := &mutating.Webhooks[i]
		if err := holds(w.ClientConfig.CABundle, want); err != nil {
			return fmt.Errorf("mutating webhook %s: %w", w.Name, err)
		}
	}
	var validating admissionregistrationv1.ValidatingWebhookConfiguration
	if err := get(ctx, c, key, &validating); err != nil {
		return fmt.Errorf("validating webhook configuration %s: %w", name, err)
	}
	for i := range validating.Webhooks {
		w := &validating.Webhooks[i]
		if err := holds(w.ClientConfig.CABundle, want); err != nil {
			return fmt.Errorf("validating webhook %s: %w", w.Name, err)
		}
	}
	return nil
}

// holds says whether a bundle has every wanted certificate; it may have more, as it does while an authority is renewed.
func holds(bundle []byte, want [][]byte) error {
	if len(bundle) == 0 {
		return errors.New("caBundle is empty; is cert-manager's cainjector running, and the configuration annotated?")
	}
	have, err := blocks(bundle)
	if err != nil {
		return fmt.Errorf("caBundle: %w", err)
	}
	for _, w := range want {
		found := false
		for _, h := range have {
			found = found || bytes.Equal(w, h)
		}
		if !found {
			return errors.New("caBundle holds another certificate than the authority's")
		}
	}
	return nil
}

// blocks lists the certificates of a PEM text.
func blocks(text []byte) ([][]byte, error) {
	var out [][]byte
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		if block.Type == "CERTIFICATE" {
			out = append(out, block.Bytes)
		}
		text = rest
	}
	if len(out) == 0 {
		return nil, errors.New("no certificate in PEM form")
	}
	return out, nil
}

// unanswered is an error of a call that the API server said nothing to: the time ran out, or a client limits itself. It
// tells less about a certificate than what was seen before it.
type unanswered struct{ error }

// Unwrap gives the call's own error.
func (u unanswered) Unwrap() error { return u.error }

func answered(err error) bool {
	var u unanswered
	return !errors.As(err, &u)
}

// get reads an object.
func get(ctx context.Context, c client.Reader, key types.NamespacedName, into client.Object) error {
	err := c.Get(ctx, key, into)
	var status apierrors.APIStatus
	if err != nil && !errors.As(err, &status) {
		return unanswered{err}
	}
	return err
}

// until looks again and again until there is nothing missing. What was missing last is the error when ctx ends.
func until(ctx context.Context, look func(context.Context) error) error {
	var missing error
	err := wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
		if err := look(ctx); err == nil {
			missing = nil
			return true, nil
		} else if missing == nil || answered(err) {
			missing = err
		}
		return false, nil
	})
	if err == nil {
		return nil
	}
	return fmt.Errorf("waited in vain: %w", errors.Join(missing, err))
}
