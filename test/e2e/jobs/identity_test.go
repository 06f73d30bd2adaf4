//go:build linux

package jobs

import (
	"context"
	"errors"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

func says(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

// TestJobsActForTheirSubmitters has two people submit, and their pods exchange with the SDK and with nothing of ours.
func TestJobsActForTheirSubmitters(t *testing.T) {
	t.Parallel()
	h := enter(t)
	for name, tc := range map[string]struct{ user, namespace, mode string }{
		"alice by the SDK":                  {house.Alice, house.Managed, "sdk"},
		"alice by plain HTTP":               {house.Alice, house.Managed, "http"},
		"bob by the SDK":                    {house.Bob, house.Managed, "sdk"},
		"bob by plain HTTP":                 {house.Bob, house.Managed, "http"},
		"alice where pods must be harmless": {house.Alice, strict, "sdk"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := house.Job(tc.user+"-"+tc.mode, "job", "--mode="+tc.mode)
			got := run(t, h, h.MustSubmit(t, h.MustClient(t, tc.user), tc.namespace, job))
			wantActing(t, got, tc.user, tc.namespace)
			if got.Mode != tc.mode {
				t.Errorf("exchanged by %s", got.Mode)
			}
		})
	}
}

// TestCronJobs has the cluster's own controller make the job of alice's CronJob, on the minute, and bob make one from it.
func TestCronJobs(t *testing.T) {
	t.Parallel()
	h := enter(t)
	job := house.Job("unused", "job")
	cron := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "nightly"},
		Spec:       batchv1.CronJobSpec{Schedule: "* * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: job.Spec}},
	}
	cron, err := h.MustClient(t, house.Alice).BatchV1().CronJobs(house.Managed).Create(t.Context(), cron, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		_ = h.Admin.BatchV1().CronJobs(house.Managed).Delete(context.Background(), cron.Name, metav1.DeleteOptions{}) // the cluster ends anyway
	})

	bob := h.MustClient(t, house.Bob)
	manual := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{ // as `kubectl create job --from` has it
		Name: "manual", Annotations: map[string]string{"cronjob.kubernetes.io/instantiate": "manual"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "CronJob", Name: cron.Name, UID: cron.UID, Controller: new(true)}},
	}, Spec: cron.Spec.JobTemplate.Spec}
	wantActing(t, run(t, h, h.MustSubmit(t, bob, house.Managed, manual)), house.Bob, house.Managed)

	var nightly batchv1.Job
	house.Eventually(t, "the CronJob's job of the next minute", func(ctx context.Context) error {
		list, err := h.Admin.BatchV1().Jobs(house.Managed).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, j := range list.Items {
			if strings.HasPrefix(j.Name, "nightly-") {
				nightly = j
				return nil
			}
		}
		return errors.New("there is none yet")
	})
	wantActing(t, run(t, h, &nightly), house.Alice, house.Managed)
}

// TestANativeSidecar has the identity in a job's main container beside a sidecar that starts first and goes on: the sidecar is not
// named, and the job ends all the same.
func TestANativeSidecar(t *testing.T) {
	t.Parallel()
	h := enter(t)
	job := house.Job("with-sidecar", "job")
	sidecar := *job.Spec.Template.Spec.Containers[0].DeepCopy()
	sidecar.Name, sidecar.Args, sidecar.RestartPolicy = "proxy", []string{"sleep"}, new(corev1.ContainerRestartPolicyAlways)
	job.Spec.Template.Spec.InitContainers = []corev1.Container{sidecar}
	job.Spec.Template.Annotations = map[string]string{"lanyard.dev/containers": "main"}
	made := h.MustSubmit(t, h.MustClient(t, house.Alice), house.Managed, job)
	wantActing(t, run(t, h, made), house.Alice, house.Managed)
	pod := h.PodOfJob(t, made)
	if got := pod.Spec.InitContainers[0].VolumeMounts; len(got) > 0 {
		t.Errorf("the sidecar was given %v", got)
	}
}
