//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// pollInterval is how often something is looked at that cannot be watched.
const pollInterval = 25 * time.Millisecond

// tailLines is how much of a log goes into an error.
const tailLines = 15

// awaitReady waits for the API server to call itself ready.
func (cp *ControlPlane) awaitReady(ctx context.Context) error {
	client, err := cp.client()
	if err != nil {
		return err
	}
	return cp.await(ctx, APIServer, func(ctx context.Context) (bool, error) {
		answer, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil && string(answer) == "ok", nil
	})
}

// AwaitServiceAccount waits until the controllers have made a new namespace fit for pods: its service account "default" and
// the ConfigMap with the API server's certificate, which every pod's token volume refers to.
func (cp *ControlPlane) AwaitServiceAccount(ctx context.Context, namespace string) error {
	client, err := cp.client()
	if err != nil {
		return err
	}
	return cp.await(ctx, ControllerManager, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			_, err = client.CoreV1().ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		}
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// await asks until the answer is yes. It gives up with an error, with ctx, or when a component has ended, and then shows
// the log of the one to blame.
func (cp *ControlPlane) await(ctx context.Context, blame Component, done func(context.Context) (bool, error)) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		ok, err := done(ctx)
		if ok {
			return nil
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return cp.blame(blame, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		if ended, ok := cp.ended(); ok {
			return cp.blame(ended, errors.New("it has ended"))
		}
	}
}

// ended names a component that has ended by itself.
func (cp *ControlPlane) ended() (Component, bool) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	for c, p := range cp.processes {
		select {
		case <-p.Done():
			return c, true
		default:
		}
	}
	return "", false
}

// blame adds the end of a component's log to an error, and where the rest of it is.
func (cp *ControlPlane) blame(c Component, err error) error {
	cp.mu.Lock()
	p := cp.processes[c]
	cp.mu.Unlock()
	if p == nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	return fmt.Errorf("%s: %w; its log, %s, ends with\n%s", c, err, p.Log(), p.Tail(tailLines))
}

// client is an administrator's.
func (cp *ControlPlane) client() (*kubernetes.Clientset, error) {
	config, err := cp.Config()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}
