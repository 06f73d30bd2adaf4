//go:build unix

package house

import (
	"context"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// AwaitIdentity waits until a job of Alice's gets a token for her. In the seconds after an installation, and after a namespace was
// labelled, work is refused for good, since nobody can know whether the policies guarded it; so a trial is repeated until it passes.
// Once it has passed nothing is waited for until the next Install.
func (h *House) AwaitIdentity(t *testing.T) {
	t.Helper()
	if h.vouched.Load() {
		return
	}
	alice := h.MustClient(t, Alice)
	Eventually(t, "the exchange to vouch for a job of "+Alice, func(ctx context.Context) error { return try(ctx, alice) })
	h.vouched.Store(true)
}

// try submits a job and waits for its end.
func try(ctx context.Context, user kubernetes.Interface) error {
	jobs := user.BatchV1().Jobs(Managed)
	job := Job("", "job", "--patience=5s")
	job.GenerateName = "trial-"
	job, err := jobs.Create(ctx, job, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	defer func() { // it may be left over where the cluster has gone
		_ = jobs.Delete(context.WithoutCancel(ctx), job.Name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
	}()
	err = await(ctx, patience, "the end of job "+job.Name, func(ctx context.Context) error {
		now, err := jobs.Get(ctx, job.Name, metav1.GetOptions{})
		if err == nil && now.Status.Succeeded+now.Status.Failed == 0 {
			err = errors.New("it runs")
		}
		job.Status = now.Status
		return err
	})
	if err == nil && job.Status.Succeeded == 0 {
		err = fmt.Errorf("job %s got no token", job.Name)
	}
	return err
}
