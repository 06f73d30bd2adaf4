package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/certs"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"webhook": main})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			for _, name := range []string{"PORT", "METRICS"} {
				port, err := freePort()
				if err != nil {
					return err
				}
				e.Setenv(name, strconv.Itoa(port))
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": status, "certificate": certificate, "ready": ready, "get": get,
		},
	})
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// status runs a command that must end with the given code.
func status(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != want {
		ts.Fatalf("got %v, want exit code %d", err, want)
	}
}

// certificate writes a self-signed pair into a directory.
func certificate(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	pair, err := certs.SelfSigned(time.Now(), "127.0.0.1")
	ts.Check(err)
	ts.Check(pair.Write(dir))
}

// ready asks until the answer is 200.
func ready(ts *testscript.TestScript, _ bool, args []string) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	last := "never asked"
	for range 1500 {
		code, body, err := fetch(args[0])
		if code == http.StatusOK {
			return
		}
		last = fmt.Sprintf("%d %s %v", code, body, err)
		<-tick.C
	}
	ts.Fatalf("%s: %s", args[0], last)
}

func get(ts *testscript.TestScript, _ bool, args []string) {
	code, body, err := fetch(args[0])
	if err != nil || code != http.StatusOK {
		ts.Fatalf("%s: %d %v", args[0], code, err)
	}
	_, err = ts.Stdout().Write(body)
	ts.Check(err)
}

func fetch(url string) (int, []byte, error) {
	resp, err := http.Get(url)
	if err != nil {
		return 0, nil, err
	}
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, body, errors.Join(err, resp.Body.Close())
}

func TestUninstallIsIdempotent(t *testing.T) {
	t.Parallel()
	named := metav1.ObjectMeta{Name: configurationName}
	client := fake.NewClientset(&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: named}, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: named})
	for _, want := range []string{"deleted", "already gone"} {
		var out bytes.Buffer
		if err := uninstall(t.Context(), client, &out); err != nil {
			t.Fatal(err)
		}
		lines := fmt.Sprintf("MutatingWebhookConfiguration lanyard %s\nValidatingWebhookConfiguration lanyard %[1]s\n", want)
		if diff := cmp.Diff(lines, out.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestSelftest(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
	stamp := func(p *corev1.Pod) {
		p.Annotations = map[string]string{wire.AnnotationCreatedBy: "tester"}
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: wire.EnvPrincipal})
	}
	tests := map[string]struct {
		good, bad func(*corev1.Pod) error
		want      string
	}{
		"a webhook that works":        {func(p *corev1.Pod) error { stamp(p); return nil }, func(*corev1.Pod) error { return forbidden }, ""},
		"a webhook that is not there": {func(*corev1.Pod) error { return nil }, func(*corev1.Pod) error { return forbidden }, "good pod: came back without annotation lanyard.dev/created-by: the webhook was not called; is the namespace labelled lanyard.dev/jobs=managed?"},
		"rules that refuse nothing":   {func(p *corev1.Pod) error { stamp(p); return nil }, func(*corev1.Pod) error { return nil }, "bad pod: was accepted although it sets NMP_PRINCIPAL; is admission.mode audit?"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset()
			client.PrependReactor("create", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
				create := a.(k8stesting.CreateActionImpl)
				pod := create.Object.(*corev1.Pod)
				if diff := cmp.Diff([]string{metav1.DryRunAll}, create.CreateOptions.DryRun); diff != "" {
					t.Errorf("not a dry run (-want +got):\n%s", diff)
				}
				if len(pod.Spec.Containers[0].Env) == 0 {
					return true, pod, tc.good(pod)
				}
				return true, pod, tc.bad(pod)
			})
			got := ""
			if err := selftest(t.Context(), client, "team", io.Discard); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
