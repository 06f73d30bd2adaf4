//go:build unix

package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

const jobController = "system:serviceaccount:kube-system:job-controller"

// podOf waits for the job controller to make a job's pod.
func podOf(t *testing.T, namespace, job string) *corev1.Pod {
	t.Helper()
	return podWith(t, namespace, "batch.kubernetes.io/job-name="+job)
}

// podWith waits for a pod that a selector matches.
func podWith(t *testing.T, namespace, selector string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	eventually(t, "there is a pod with "+selector, func(ctx context.Context) (bool, error) {
		list, err := admin(t).CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil || len(list.Items) == 0 {
			return false, err
		}
		pod = &list.Items[0]
		return true, nil
	})
	return pod
}

// finish sets a pod's status as a kubelet does whose container has ended well.
func finish(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	patch := []byte(`{"status":{"phase":"Succeeded"}}`)
	_, err := admin(t).CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatalf("finishing the pod: %v", err)
	}
}

// identified fails the test unless a pod has the job's token and this creator.
func identified(t *testing.T, pod *corev1.Pod, creator string) {
	t.Helper()
	if len(tokenIn(pod, wire.VolumeJob)) == 0 || pod.Annotations[wire.AnnotationCreatedBy] != creator {
		t.Errorf("pod %s has the token in %q and is stamped %q, want %q", pod.Name, tokenIn(pod, wire.VolumeJob), pod.Annotations[wire.AnnotationCreatedBy], creator)
	}
}

// anonymous fails the test unless a pod has no identity, and this creator.
func anonymous(t *testing.T, pod *corev1.Pod, controller string) {
	t.Helper()
	creator := "system:serviceaccount:kube-system:" + controller
	if len(pod.Spec.Volumes) > 0 || pod.Labels[wire.LabelInjected] != "" || pod.Annotations[wire.AnnotationCreatedBy] != creator {
		t.Errorf("pod %s has %d volumes, is injected as %q and stamped %q", pod.Name, len(pod.Spec.Volumes), pod.Labels[wire.LabelInjected], pod.Annotations[wire.AnnotationCreatedBy])
	}
}

// TestJobRunsToItsEnd lets a job finish and be cleared away by its time to live, pods and all.
func TestJobRunsToItsEnd(t *testing.T) {
	t.Parallel()
	namespace := managed(t)
	alice := editor(t, "alice", namespace)
	jobs := alice.BatchV1().Jobs(namespace)
	kept := makeJob(t, alice, namespace, newJob("kept"))
	job := newJob("cleared")
	job.Spec.TTLSecondsAfterFinished = new(int32(0))
	makeJob(t, alice, namespace, job)
	for _, name := range []string{"kept", "cleared"} {
		pod := podOf(t, namespace, name)
		identified(t, pod, jobController)
		finish(t, pod)
	}
	eventually(t, "the job is complete and its stamp as it was", func(ctx context.Context) (bool, error) {
		got, err := jobs.Get(ctx, "kept", metav1.GetOptions{})
		return err == nil && got.Status.Succeeded == 1 && got.Status.CompletionTime != nil &&
			got.Annotations[wire.AnnotationCreatedBy] == kept.Annotations[wire.AnnotationCreatedBy], err
	})
	gone(t, namespace, "cleared", func(ctx context.Context) error {
		_, err := jobs.Get(ctx, "cleared", metav1.GetOptions{})
		return err
	})
}

// TestOrphansStay deletes a job but not its pods, which the garbage collector then takes the owner off.
func TestOrphansStay(t *testing.T) {
	t.Parallel()
	namespace := managed(t)
	alice := editor(t, "alice", namespace)
	makeJob(t, alice, namespace, newJob("orphaning"))
	pod := podOf(t, namespace, "orphaning")
	accepted(t, alice.BatchV1().Jobs(namespace).Delete(t.Context(), "orphaning", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}))
	eventually(t, "the pod has no owner", func(ctx context.Context) (bool, error) {
		got, err := alice.CoreV1().Pods(namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		return err == nil && len(got.OwnerReferences) == 0 && got.DeletionTimestamp == nil, err
	})
}

// TestOrphansOfACronJobStay has a person run a CronJob by hand and delete it: the garbage collector takes the owner off the
// job, which goes on. Then the job is deleted in the foreground, for which its pod's reference is what the API server waits.
func TestOrphansOfACronJobStay(t *testing.T) {
	t.Parallel()
	namespace := managed(t)
	alice := editor(t, "alice", namespace)
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "yearly"}, Spec: batchv1.CronJobSpec{
		Schedule: "0 0 1 1 *", JobTemplate: batchv1.JobTemplateSpec{Spec: newJob("").Spec},
	}}
	if _, err := alice.BatchV1().CronJobs(namespace).Create(t.Context(), cron, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	sh := shellOf(t, "alice", namespace)
	sh.must(t, "", "create", "job", "by-hand", "--from=cronjob/yearly")
	identified(t, podOf(t, namespace, "by-hand"), jobController)
	sh.must(t, "", "delete", "cronjob", "yearly", "--cascade=orphan")
	jobs := alice.BatchV1().Jobs(namespace)
	eventually(t, "the job has no owner", func(ctx context.Context) (bool, error) {
		got, err := jobs.Get(ctx, "by-hand", metav1.GetOptions{})
		return err == nil && len(got.OwnerReferences) == 0 && got.DeletionTimestamp == nil, err
	})
	accepted(t, jobs.Delete(t.Context(), "by-hand", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}))
	gone(t, namespace, "by-hand", func(ctx context.Context) error {
		_, err := jobs.Get(ctx, "by-hand", metav1.GetOptions{})
		return err
	})
}

// TestJobsAreScaledAndSuspendedByOthers has a teammate suspend, scale and resume somebody's job, the real controller following,
// and not change what it runs.
func TestJobsAreScaledAndSuspendedByOthers(t *testing.T) {
	t.Parallel()
	namespace := managed(t)
	makeJob(t, editor(t, "alice", namespace), namespace, newJob("shared"))
	podOf(t, namespace, "shared")
	bob := editor(t, "bob", namespace).BatchV1().Jobs(namespace)
	patch := func(body string) error {
		_, err := bob.Patch(t.Context(), "shared", types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	accepted(t, patch(`{"spec":{"suspend":true}}`))
	eventually(t, "the suspended job has no pod", func(ctx context.Context) (bool, error) {
		list, err := admin(t).CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=shared"})
		return err == nil && len(list.Items) == 0, err
	})
	refused(t, patch(`{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}`), "lanyard-job-templates", "alice, who alone may change what they are made from")
	accepted(t, patch(`{"spec":{"suspend":false,"activeDeadlineSeconds":3600}}`))
	identified(t, podOf(t, namespace, "shared"), jobController)
}

// gone waits until a job and its pods are no more.
func gone(t *testing.T, namespace, job string, get func(context.Context) error) {
	t.Helper()
	eventually(t, "the job and its pods are gone", func(ctx context.Context) (bool, error) {
		if err := get(ctx); !apierrors.IsNotFound(err) {
			return false, err
		}
		list, err := admin(t).CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=" + job})
		return err == nil && len(list.Items) == 0, err
	})
}

// TestCronJobRuns waits for the minute to be full, so that the CronJob controller makes a job and that job's pod.
func TestCronJobRuns(t *testing.T) {
	t.Parallel()
	namespace := managed(t)
	alice := editor(t, "alice", namespace)
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "nightly"}, Spec: batchv1.CronJobSpec{
		Schedule: "* * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: newJob("").Spec},
	}}
	if _, err := alice.BatchV1().CronJobs(namespace).Create(t.Context(), cron, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventuallyWithin(t, 5*time.Minute, "the CronJob has made a job", func(ctx context.Context) (bool, error) {
		list, err := alice.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			return false, err
		}
		const want = "system:serviceaccount:kube-system:cronjob-controller"
		if got := list.Items[0].Annotations[wire.AnnotationCreatedBy]; got != want {
			t.Errorf("the job is stamped %q, want %q", got, want)
		}
		return true, nil
	})
	identified(t, podWith(t, namespace, "batch.kubernetes.io/job-name"), jobController)
}

// workload is the template of a controller of group apps, with the selector that goes with it.
func workload() (corev1.PodTemplateSpec, *metav1.LabelSelector) {
	pod := newPod(labelled("app", "web"), func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways })
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec}, &metav1.LabelSelector{MatchLabels: pod.Labels}
}

// TestDeploymentLives scales, restarts, evicts and deletes a Deployment in a managed namespace. Its pods have no identity.
func TestDeploymentLives(t *testing.T) {
	t.Parallel()
	namespace := managed(t)
	alice := editor(t, "alice", namespace)
	deployments := alice.AppsV1().Deployments(namespace)
	template, selector := workload()
	web := deployment("web", template, selector)
	web.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	if _, err := deployments.Create(t.Context(), web, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	anonymous(t, podWith(t, namespace, "app=web"), "replicaset-controller")
	sh := shellOf(t, "alice", namespace)
	sh.must(t, "", "scale", "deployment/web", "--replicas=2")
	pods := func(want int, unlike types.UID) {
		t.Helper()
		eventually(t, fmt.Sprintf("there are %d pods, without that one", want), func(ctx context.Context) (bool, error) {
			list, err := alice.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
			for _, p := range list.Items {
				if p.UID == unlike {
					return false, err
				}
			}
			return err == nil && len(list.Items) == want, err
		})
	}
	pods(2, "")
	first := podWith(t, namespace, "app=web")
	sh.must(t, "", "rollout", "restart", "deployment/web")
	pods(2, first.UID)
	second := podWith(t, namespace, "app=web")
	accepted(t, admin(t).CoreV1().Pods(namespace).EvictV1(t.Context(), eviction(second)))
	pods(2, second.UID)
	accepted(t, deployments.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	pods(0, "")
}

// TestEveryControllerInADyingNamespace has every kind of controller make a pod, drains the node, and deletes the namespace.
func TestEveryControllerInADyingNamespace(t *testing.T) {
	t.Parallel()
	namespace := managed(t)
	node, _ := makeNode(t, "drained-node")
	alice := editor(t, "alice", namespace)
	template, selector := workload()
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template}}
	if _, err := alice.AppsV1().StatefulSets(namespace).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	anonymous(t, podWith(t, namespace, "app=web"), "statefulset-controller")
	daemon := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: appsv1.DaemonSetSpec{Selector: selector.DeepCopy(), Template: *template.DeepCopy()}}
	daemon.Spec.Template.Labels = map[string]string{"app": "agent"}
	daemon.Spec.Selector.MatchLabels = daemon.Spec.Template.Labels
	daemon.Spec.Template.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": node.Name}
	if _, err := alice.AppsV1().DaemonSets(namespace).Create(t.Context(), daemon, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	anonymous(t, podWith(t, namespace, "app=agent"), "daemon-set-controller")
	makeJob(t, alice, namespace, newJob("train"))
	drained := podOf(t, namespace, "train")
	bind(t, drained, node.Name)
	drain(t, namespace, node.Name)
	eventually(t, "another pod takes the drained one's place", func(ctx context.Context) (bool, error) {
		list, err := alice.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=train"})
		return err == nil && len(list.Items) == 1 && list.Items[0].UID != drained.UID, err
	})
	spaces := admin(t).CoreV1().Namespaces()
	accepted(t, spaces.Delete(t.Context(), namespace, metav1.DeleteOptions{}))
	eventually(t, "the namespace is gone", func(ctx context.Context) (bool, error) {
		_, err := spaces.Get(ctx, namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
}
