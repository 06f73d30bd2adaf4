//go:build unix

package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/lanyard-k8s/lanyard/test/cluster"
)

const (
	bold  = "1"
	green = "32"
	dim   = "2"
)

// wanted is one value of an object: what it is called, its JSONPath and what it must be.
type wanted struct{ what, path, value string }

// show reads values of an object back from the API server, prints them, and is an error unless each is as wanted.
func (s *stage) show(ctx context.Context, object, namespace string, values ...wanted) error {
	s.say("admin$ kubectl get " + object + " -n " + namespace)
	for _, v := range values {
		got, err := s.kubectl(ctx, cluster.Admin, nil, "get", object, "-n", namespace, "-o", "jsonpath="+v.path)
		if err != nil {
			return err
		}
		if got != v.value {
			return fmt.Errorf("%s: %s is %q, want %q", object, v.what, got, v.value)
		}
		if got == "" {
			got = "none"
		}
		s.tick(v.what + ": " + got)
	}
	return nil
}

// jobPod waits for the job controller to make a job's pod.
func (s *stage) jobPod(ctx context.Context, namespace, job string) (name string, err error) {
	err = s.poll(ctx, func() (bool, error) {
		name, err = s.kubectl(ctx, cluster.Admin, nil, "get", "pods", "-n", namespace, "-l", "batch.kubernetes.io/job-name="+job,
			"-o", "jsonpath={.items[*].metadata.name}")
		return name != "", err
	})
	if err != nil {
		return "", fmt.Errorf("waiting for the pod of job %s: %w", job, err)
	}
	return name, nil
}

// poll asks until the answer is yes, for half a minute at most.
func (s *stage) poll(ctx context.Context, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("not within half a minute"))
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// linger tells how to look around and waits until somebody ends the demo.
func (s *stage) linger(ctx context.Context) error {
	admin, err := s.cp.Kubeconfig(cluster.Admin)
	if err != nil {
		return err
	}
	alice, err := s.cp.Kubeconfig("alice")
	if err != nil {
		return err
	}
	s.say("Everything goes on running. Look around in another terminal:")
	s.quote(fmt.Sprintf(`export KUBECONFIG=%s     # the administrator
export KUBECONFIG=%s     # alice, an editor of gpu-monitors, team-a and elsewhere
alias kubectl=%s
kubectl get pods,jobs -A
kubectl get validatingadmissionpolicies,mutatingwebhookconfigurations,validatingwebhookconfigurations
curl -s %s | grep ^lanyard_admission
curl -s %s/metrics | grep ^platform_connector
%s doctor -n %s     # says what a trial lacks: Services and cert-manager`,
		admin, alice, s.cp.Kubectl(), s.in.Webhook().MetricsURL(), s.connector.metrics, s.programs["lanyard"], s.in.Namespace()))
	s.say("Ctrl-C ends it and leaves nothing behind.")
	<-ctx.Done()
	return nil
}

// clear removes the folders of the connectors; their processes end with the control plane's.
func (s *stage) clear() error {
	var errs []error
	for _, folder := range s.folders {
		errs = append(errs, os.RemoveAll(folder))
	}
	return errors.Join(errs...)
}

func (s *stage) title(text string) { fmt.Fprintf(s.out, "\n%s\n", s.paint(bold, "== "+text)) }
func (s *stage) say(text string)   { fmt.Fprintln(s.out, text) }
func (s *stage) tick(text string)  { fmt.Fprintln(s.out, s.paint(green, "  ✓ "+text)) }

// quote prints what somebody else wrote, indented.
func (s *stage) quote(text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		fmt.Fprintln(s.out, s.paint(dim, "    "+strings.TrimRight(line, "\n")))
	}
}

func (s *stage) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
