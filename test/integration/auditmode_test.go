//go:build unix

package integration

import (
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/install"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// auditing is a control plane of its own with Lanyard in mode audit.
func auditing(t *testing.T) (*cluster.ControlPlane, *kubernetes.Clientset, *warnings) {
	t.Helper()
	cp, err := cluster.Start(t.Context(), cluster.Options{Out: os.Stderr})
	if errors.Is(err, program.ErrNoGo) || errors.Is(err, program.ErrNoModules) {
		t.Skipf("no control plane to test on: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	stop(t, cp.Stop)
	in, err := install.Start(t.Context(), cp, install.Options{
		Out: os.Stderr, Values: "admission: {mode: audit}\nwebhook: {timeoutSeconds: 10}\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	stop(t, in.Stop)
	heard := &warnings{}
	config, err := cp.Config()
	if err == nil {
		config.WarningHandler = heard
	}
	client := clientset(t, config, err)
	for name, labels := range map[string]map[string]string{
		"managed": {wire.LabelJobs: wire.JobsManaged}, "plain": nil,
	} {
		space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		if _, err := client.CoreV1().Namespaces().Create(t.Context(), space, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := cp.AwaitServiceAccount(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	return cp, client, heard
}

// TestModeAudit lets reserved names and paths through with warnings and notes in the audit log, and nothing else.
func TestModeAudit(t *testing.T) {
	t.Parallel()
	cp, client, heard := auditing(t)
	pod, err := tryPod(t, client, "managed", newPod(setting(wire.EnvPrincipal, "root"), func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "scratch"}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/var/run/secrets/nemo-platform"}}
	}))
	if err != nil {
		t.Fatal(err)
	}
	if pod.Spec.Containers[0].Env[0].Value != "root" || pod.Annotations[wire.AnnotationCreatedBy] != cluster.Admin {
		t.Errorf("the pod has %v, and is stamped %q", pod.Spec.Containers[0].Env, pod.Annotations[wire.AnnotationCreatedBy])
	}
	said(t, heard.String(), "audit mode let through reserved_env at spec.containers[0].env[0].name",
		"audit mode let through path_conflict at spec.containers[0].volumeMounts[0].mountPath",
		"lanyard-reserved-names", "spec.containers[main].env[NMP_PRINCIPAL]")

	notes := noted(t, cp, cluster.Admin, "managed", 201)
	said(t, notes[violationKey], `"policy":"lanyard-reserved-names"`, `"validationActions":["Audit","Warn"]`)
	for _, entry := range []string{"job.mutate.lanyard.dev", "job.validate.lanyard.dev"} {
		got := ours(t, notes, entry)
		want := []string{"audited", string(violation.PathConflict) + "," + string(violation.ReservedEnv)}
		if diff := cmp.Diff(want, []string{got[wire.AuditDecision], got[wire.AuditReasons]}); diff != "" {
			t.Errorf("decision and reasons of %s (-want +got):\n%s", entry, diff)
		}
	}
	// A name that is only let through keeps nobody's token away; a path that is taken does.
	if got := len(tokenIn(pod, wire.VolumeJob)); got != 0 {
		t.Errorf("%d containers have the token over a path that is taken", got)
	}
	identified(t, makePod(t, client, "managed", setting(wire.EnvPrincipal, "root")), cluster.Admin)
	job := newJob("train", setting(wire.EnvPrincipal, "root"))
	if _, err := client.BatchV1().Jobs("managed").Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Errorf("a job: %v", err)
	}
	said(t, heard.String(), "audit mode let through reserved_env at spec.template.spec.containers[0].env[0].name")
	guards(t, client)
}

// guards tries what no mode loosens.
func guards(t *testing.T, client *kubernetes.Clientset) {
	t.Helper()
	for _, audience := range []string{wire.DefaultJobAudience, wire.DefaultPublisherAudience} {
		_, err := tryPod(t, client, "plain", newPod(withToken(audience)))
		refused(t, err, "lanyard-protected-audiences", audience)
		refused(t, askToken(t, client, "plain", audience), "lanyard-token-requests")
	}
	_, err := tryPod(t, client, "managed", newPod(withToken(wire.DefaultJobAudience)))
	refused(t, err, "spec.volumes[0].projected.sources[0].serviceAccountToken.audience")
	_, err = tryPod(t, client, "plain", newPod(annotated(wire.AnnotationCreatedBy, "bob")))
	refused(t, err, "lanyard-creator-stamp")
	_, err = tryPod(t, client, "plain", newPod(labelled(wire.LabelInjected, "job")))
	refused(t, err, "lanyard-injected-label")
}
