//go:build unix

package integration

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// stampedBy is a merge patch of the stamp; nil removes it.
func stampedBy(user any) []byte {
	value := "null"
	if user != nil {
		value = fmt.Sprintf("%q", user)
	}
	return fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, wire.AnnotationCreatedBy, value)
}

// TestForgedStampAnywhere proves that a stamp is true wherever it stands, in namespaces that nobody manages too.
func TestForgedStampAnywhere(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t, nil)
	alice := editor(t, "alice", namespace)
	_, err := tryPod(t, alice, namespace, newPod(annotated(wire.AnnotationCreatedBy, "bob")))
	refused(t, err, "lanyard-creator-stamp", "names somebody else", "remove it from your manifest")
	_, err = tryPod(t, alice, namespace, newPod(annotated(wire.AnnotationCreatedBy, "")))
	refused(t, err, "lanyard-creator-stamp")
	job := newJob("forged")
	metav1.SetMetaDataAnnotation(&job.ObjectMeta, wire.AnnotationCreatedBy, "bob")
	_, err = alice.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{})
	refused(t, err, "lanyard-creator-stamp")

	honest := makePod(t, alice, namespace, annotated(wire.AnnotationCreatedBy, "alice"))
	plain := makePod(t, alice, namespace)
	pods := admin(t).CoreV1().Pods(namespace)
	for what, tc := range map[string]struct {
		pod   *corev1.Pod
		stamp any
	}{"added": {plain, "alice"}, "changed": {honest, "bob"}, "removed": {honest, nil}} {
		for _, subresource := range []string{"", "status"} {
			t.Run(what+" "+subresource, func(t *testing.T) {
				_, err := pods.Patch(t.Context(), tc.pod.Name, types.MergePatchType, stampedBy(tc.stamp), metav1.PatchOptions{}, subresources(subresource)...)
				refused(t, err, "lanyard-creator-stamp", "never added, changed or removed afterwards")
			})
		}
	}
}

// TestStampInAManagedNamespace is written over what the manifest says, and stays as it was on every update.
func TestStampInAManagedNamespace(t *testing.T) {
	t.Parallel()
	namespace := managed(t)
	alice, bob := editor(t, "alice", namespace), editor(t, "bob", namespace)
	pod := makePod(t, alice, namespace, annotated(wire.AnnotationCreatedBy, "bob"))
	identified(t, pod, "alice")
	job := newJob("train", annotated(wire.AnnotationCreatedBy, "bob"))
	metav1.SetMetaDataAnnotation(&job.ObjectMeta, wire.AnnotationCreatedBy, "bob")
	makeJob(t, alice, namespace, job)
	identified(t, podOf(t, namespace, "train"), jobController)

	for _, stamp := range []any{"bob", "", nil} {
		// The webhook puts a job's stamp back, and never looks at the update of a pod: there a policy refuses, for a removed
		// stamp either of two.
		got, err := bob.BatchV1().Jobs(namespace).Patch(t.Context(), "train", types.MergePatchType, stampedBy(stamp), metav1.PatchOptions{})
		if err != nil || got.Annotations[wire.AnnotationCreatedBy] != "alice" {
			t.Errorf("patching the stamp to %v: %v, %v", stamp, got.Annotations, err)
		}
		_, err = bob.CoreV1().Pods(namespace).Patch(t.Context(), pod.Name, types.MergePatchType, stampedBy(stamp), metav1.PatchOptions{})
		refused(t, err, "lanyard-creator-", "leave it as it is")
		_, err = admin(t).BatchV1().Jobs(namespace).Patch(t.Context(), "train", types.MergePatchType, stampedBy(stamp), metav1.PatchOptions{}, "status")
		refused(t, err, "lanyard-creator-", "leave it as it is")
	}
}

// acting is an administrator's client that acts as somebody else.
func acting(t *testing.T, as rest.ImpersonationConfig) *kubernetes.Clientset {
	t.Helper()
	config, err := controlPlane(t).Config()
	if err == nil {
		config.Impersonate = as
	}
	return clientset(t, config, err)
}

// TestImpersonationStampsThePerson lets a platform submit for its user.
func TestImpersonationStampsThePerson(t *testing.T) {
	t.Parallel()
	namespace := managed(t)
	editor(t, "carol", namespace)
	carol := acting(t, rest.ImpersonationConfig{UserName: "carol"})
	if got := makeJob(t, carol, namespace, newJob("train")).Annotations[wire.AnnotationCreatedBy]; got != "carol" {
		t.Errorf("the job is stamped %q", got)
	}
	identified(t, makePod(t, carol, namespace), "carol")
}

// TestWhoMayNotSubmit are those who are no person: they are told the three ways out, and each of them works.
func TestWhoMayNotSubmit(t *testing.T) {
	t.Parallel()
	namespace := managed(t)
	waysOut := []string{"lanyard-creator-required", "allowedSubmitterServiceAccounts", "impersonate the user you submit for", "lanyard.dev/role: none"}
	for _, user := range []string{
		wire.Account{Namespace: namespace, Name: "default"}.Username(), "system:serviceaccount:lanyard-platform:other",
		"system:somebody", "System:Somebody", "service:robot",
	} {
		t.Run(user, func(t *testing.T) {
			grant(t, namespace, "edit", user)
			client := as(t, user)
			_, err := tryPod(t, client, namespace, newPod())
			refused(t, err, append(waysOut, user+" may not submit")...)
			job := newJob("train")
			job.GenerateName, job.Name = "train-", ""
			_, err = client.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{})
			refused(t, err, waysOut...)
			// A label on the job itself is not one on its template.
			metav1.SetMetaDataLabel(&job.ObjectMeta, wire.LabelRole, wire.RoleNone)
			_, err = client.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{})
			refused(t, err, waysOut...)

			helper := makePod(t, client, namespace, labelled(wire.LabelRole, wire.RoleNone))
			if len(helper.Spec.Volumes) > 0 || helper.Labels[wire.LabelInjected] != "" || helper.Annotations[wire.AnnotationCreatedBy] != user {
				t.Errorf("the helper has %d volumes and is stamped %q", len(helper.Spec.Volumes), helper.Annotations[wire.AnnotationCreatedBy])
			}
			job = newJob("", labelled(wire.LabelRole, wire.RoleNone))
			job.GenerateName = "helper-"
			helperPod := podOf(t, namespace, makeJob(t, client, namespace, job).Name)
			anonymous(t, helperPod, "job-controller")
		})
	}
	const listed = "system:serviceaccount:lanyard-platform:submitter"
	grant(t, namespace, "edit", listed)
	identified(t, makePod(t, as(t, listed), namespace), listed)
}
