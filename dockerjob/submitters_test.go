package dockerjob_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lanyard-k8s/lanyard/delegation/delegationtest"
	"github.com/lanyard-k8s/lanyard/dockerjob"
)

// unstarted is a backend that does not run, on an Engine that is not there.
func unstarted(t *testing.T, now time.Time, log logr.Logger) *dockerjob.Backend {
	t.Helper()
	engine, err := dockerjob.NewEngine("unix:///nowhere")
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := dockerjob.NewMetrics(prometheus.NewPedanticRegistry())
	if err != nil {
		t.Fatal(err)
	}
	b, err := dockerjob.New(dockerjob.Options{
		Engine: engine, Store: &delegationtest.Memory{}, Metrics: metrics, Clock: func() time.Time { return now }, Log: log,
		Settings: dockerjob.Settings{
			Instance: "test", BaseURL: "https://lanyard.internal:8443", CA: func() []byte { return []byte("-----BEGIN CERTIFICATE-----\n") }, Audiences: []string{"platform"}, Keep: time.Hour,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestManyShortJobsPushOutNobodyElses: mallory runs one after the other, and alice's that ended before them is there still.
func TestManyShortJobsPushOutNobodyElses(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := unstarted(t, now, logr.Discard())
	count := func(subject string) int {
		jobs, err := b.List(t.Context(), subject)
		if err != nil {
			t.Fatal(err)
		}
		return len(jobs)
	}
	b.Ended("alice", fmt.Sprintf("%012x", 1), now.Add(-50*time.Minute), true)
	b.Ended("alice", fmt.Sprintf("%012x", 2), now.Add(-2*time.Hour), true)
	b.Ended("alice", fmt.Sprintf("%012x", 3), now.Add(-2*time.Hour), false) // somebody undoes it still
	for i := range dockerjob.MaxKept + 100 {
		b.Ended("mallory", fmt.Sprintf("%012x", 100+i), now.Add(-time.Duration(i)*time.Second), true)
	}
	b.Prune()
	if a, m := count("alice"), count("mallory"); a != 2 || m != dockerjob.MaxKept-1 {
		t.Errorf("alice has %d jobs, mallory %d", a, m)
	}
	for id, want := range map[int]error{1: nil, 2: dockerjob.ErrNotFound, 3: nil} {
		if _, err := b.Job(t.Context(), "alice", fmt.Sprintf("%012x", id)); !errors.Is(err, want) {
			t.Errorf("alice's job %d: %v", id, err)
		}
	}
	if _, err := b.Job(t.Context(), "mallory", fmt.Sprintf("%012x", 100)); err != nil {
		t.Errorf("mallory's last job: %v", err)
	}
	if _, err := b.Job(t.Context(), "mallory", fmt.Sprintf("%012x", 100+dockerjob.MaxKept)); !errors.Is(err, dockerjob.ErrNotFound) {
		t.Errorf("one of mallory's first: %v", err)
	}
}

// TestWhatIsLoggedOfAJobThatIsNone: neither its length nor what it holds.
func TestWhatIsLoggedOfAJobThatIsNone(t *testing.T) {
	t.Parallel()
	log := &logBook{}
	b := unstarted(t, time.Now(), funcr.New(log.add, funcr.Options{Verbosity: 1}))
	s := dockerjob.Spec{Workspace: strings.Repeat("w", 1<<18), Job: "m4rk3d", Task: "t", Image: "i", Env: []dockerjob.EnvVar{{Name: "TOKEN:m4rk3d"}, {Name: "A", Value: "m4rk3d\x00"}}}
	var invalid *dockerjob.InvalidError
	if _, err := b.Submit(t.Context(), "alice", s); !errors.As(err, &invalid) || len(invalid.Faults) != 3 {
		t.Fatalf("it is taken: %v", err)
	}
	if len(log.text) > 1000 || strings.Contains(log.text, "m4rk3d") || !strings.Contains(log.text, "not valid") {
		t.Errorf("logged: %.2000s", log.text)
	}
}

// logBook keeps what one goroutine logs.
type logBook struct{ text string }

func (l *logBook) add(prefix, args string) { l.text += prefix + args + "\n" }
