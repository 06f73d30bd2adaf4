//go:build linux

package publishers

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// Where the Deployment is, and where its publishers find what its certificate is checked against.
const (
	service  = "lanyard-connector." + house.Namespace + ".svc:50051"
	overTLS  = "--target=" + service
	checking = "--ca-file=" + wire.CAMountPath + "/" + wire.CAFile
)

// TestTheDeployment reports over TLS, from pods that have nothing of the node: their namespace is held to PodSecurity's restricted
// level, which the injected volumes keep to.
func TestTheDeployment(t *testing.T) {
	t.Parallel()
	r := enter(t)
	t.Run("takes events of the caller's node", func(t *testing.T) {
		t.Parallel()
		pod := r.create(t, r.plainPod(restrictedSpace, "tls", monitor, r.far, "publisher", overTLS, checking, "--check=TLSCheck", "--fatal", "--count=3"))
		for _, b := range r.ended(t, pod) {
			wantTaken(t, b)
		}
		await(t, patience, "the node shows the condition", func() bool {
			c := r.condition(t, r.far, "TLSCheck")
			return c != nil && c.Status == corev1.ConditionTrue
		})
		found := 0
		for _, e := range r.receivedOverTLS(t, pod.Name+"-") {
			if found++; e.Node != r.far || e.PodUID != string(pod.UID) || e.Scope != "node_local" {
				t.Errorf("written as %+v, want it to be of %s", e, pod.Name)
			}
		}
		if found != 3 {
			t.Errorf("the Deployment wrote %d events, want 3", found)
		}
	})
	t.Run("lets a listed monitor name any node", func(t *testing.T) {
		t.Parallel()
		pod := r.create(t, r.plainPod(crossSpace, "tls-fleet", fleetMonitor, r.far, "publisher", overTLS, checking, "--node="+r.near, "--check=TLSFleetCheck", "--fatal", "--count=1"))
		wantTaken(t, r.one(t, pod))
		await(t, patience, "the other node shows the condition", func() bool {
			c := r.condition(t, r.near, "TLSFleetCheck")
			return c != nil && c.Status == corev1.ConditionTrue
		})
	})
	for name, tc := range map[string]struct {
		space, account string
		args           []string
		code, says     string
		reason         string
	}{
		"refuses another node":                   {restrictedSpace, monitor, []string{"--node=" + r.near}, "PermissionDenied", "names another node than the caller's own", "node_mismatch"},
		"refuses an unlisted caller":             {labelledSpace, monitor, nil, "PermissionDenied", "is not on the connector's list of publishers", "publisher_not_listed"},
		"refuses a caller without a token":       {restrictedSpace, monitor, []string{"--as=none"}, "Unauthenticated", "a token is required", ""},
		"refuses a token that was tampered with": {restrictedSpace, monitor, []string{"--as=tampered"}, "Unauthenticated", "the token was refused", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r.giveCA(t, tc.space)
			id := strings.ReplaceAll(name, " ", "-")
			pod := r.create(t, r.plainPod(tc.space, id, tc.account, r.far, append([]string{"attempt", overTLS, checking, "--interval=250ms"}, tc.args...)...), asking)
			if got := r.answer(t, pod); got.Code != tc.code || !strings.Contains(got.Message, tc.says) {
				t.Errorf("answered %+v, want %s: ...%s...", got, tc.code, tc.says)
			}
			if tc.reason != "" {
				r.refusedBy(t, r.deployed(t), tc.reason, pod)
			}
		})
	}
}

// TestPodSecurityRestricted shows that the namespace is held to it: what mounts the host's directory is refused there.
func TestPodSecurityRestricted(t *testing.T) {
	t.Parallel()
	r := enter(t)
	_, err := r.make(t.Context(), r.publisherPod(restrictedSpace, "with-a-host-path", monitor, r.far, "publisher"))
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `restricted`) || strings.Contains(err.Error(), wire.VolumePublisher) {
		t.Errorf("creating it: %v; want PodSecurity to refuse the host's directory and nothing else", err)
	}
}

// answer is the first that a pod got from the connector: the network opens to a new pod a moment after it has started.
func (r *rig) answer(t testing.TB, pod *corev1.Pod) (first attempt) {
	t.Helper()
	await(t, patience, pod.Name+" is answered", func() bool {
		for _, a := range r.attempts(t, pod) {
			if a.Code != "Unavailable" && a.Code != "DeadlineExceeded" {
				first = a
				return true
			}
		}
		return false
	})
	return first
}

// deployed are the Deployment's pods.
func (r *rig) deployed(t testing.TB) []corev1.Pod {
	t.Helper()
	pods, err := r.connectors(t.Context(), "connector-deployment", "")
	must(t, err)
	return pods
}

// receivedOverTLS are the lines of the Deployment's log sink about events whose ids have a beginning.
func (r *rig) receivedOverTLS(t testing.TB, prefix string) (all []event) {
	t.Helper()
	for _, pod := range r.deployed(t) {
		out, err := r.output(t.Context(), &pod, "connector", false)
		must(t, err)
		all = append(all, lines(out, func(e event) bool { return e.Message == "health event" && strings.HasPrefix(e.ID, prefix) })...)
	}
	return all
}

// giveCA makes the ConfigMap with the CA's certificate in a namespace that is on no list, as operators do by hand.
func (r *rig) giveCA(t testing.TB, space string) {
	t.Helper()
	secret, err := r.admin.CoreV1().Secrets(r.space).Get(t.Context(), "lanyard-connector-tls", metav1.GetOptions{})
	must(t, err)
	_, err = r.admin.CoreV1().ConfigMaps(space).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: wire.DefaultCAConfigMap}, Data: map[string]string{wire.CAFile: string(secret.Data[wire.CAFile])},
	}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		must(t, err)
	}
}

// TestACertificateIsRenewed takes the Deployment's certificate away, so that cert-manager makes another one. A publisher that sends all
// the while notices nothing, both replicas load the new one without a restart, and who comes after it is served.
func TestACertificateIsRenewed(t *testing.T) {
	t.Parallel()
	r := enter(t)
	const ends = "lanyard_connector_tls_cert_not_after_seconds"
	pods, before, restarts := r.deployed(t), map[string]float64{}, map[string]int32{}
	for _, pod := range pods {
		restarts[pod.Name] = restartsOf(&pod)
		if before[pod.Name] = r.metric(t, &pod, ends); before[pod.Name] <= 0 {
			t.Fatalf("%s tells no end of its certificate", pod.Name)
		}
	}
	lasting := r.create(t, r.plainPod(restrictedSpace, "through-a-renewal", monitor, r.far, "publisher", overTLS, checking, "--store-only", "--interval=100ms"))
	r.acknowledged(t, lasting, 1)
	must(t, r.admin.CoreV1().Secrets(r.space).Delete(t.Context(), "lanyard-connector-tls", metav1.DeleteOptions{}))
	took := await(t, 2*patience, "both replicas have the new certificate", func() bool {
		for _, pod := range pods {
			if r.metric(t, &pod, ends) <= before[pod.Name] {
				return false
			}
		}
		return true
	})
	t.Logf("both replicas served the new certificate %s after the old one was taken away", took.Round(time100))
	after := r.create(t, r.plainPod(restrictedSpace, "after-the-renewal", monitor, r.far, "publisher", overTLS, checking, "--store-only", "--count=1"))
	wantTaken(t, r.one(t, after))
	for _, b := range r.batches(t, lasting) {
		wantTaken(t, b)
	}
	for _, pod := range r.deployed(t) {
		if was, ok := restarts[pod.Name]; !ok || restartsOf(&pod) != was {
			t.Errorf("%s is new or was restarted", pod.Name)
		}
	}
}
