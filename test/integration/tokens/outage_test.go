//go:build unix

package tokens

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/lanyard-k8s/lanyard/internal/liveness"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// TestOutage is T29, and what comes after: everything works again by itself.
func TestOutage(t *testing.T) {
	for name, tc := range map[string]struct{ stop, start func(*testing.T, *world) }{
		"stopped in its tracks": {
			stop:  func(t *testing.T, w *world) { must(t, w.Pause(cluster.APIServer)) },
			start: func(t *testing.T, w *world) { must(t, w.Resume(cluster.APIServer)) },
		},
		"killed": {
			stop:  func(t *testing.T, w *world) { must(t, w.Kill(cluster.APIServer)) },
			start: func(t *testing.T, w *world) { must(t, w.Restart(t.Context(), cluster.APIServer)) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := shared.home(t)
			pod := h.pod("here", h.node.Name)
			pods := h.watches()["socket"]
			watched := reviewer(t, h.backend(t, reviewerUser), func(o *tokenreview.Options) { o.Pods = pods })
			unwatched := reviewer(t, h.backend(t, reviewerUser), func(o *tokenreview.Options) { o.FallbackEvery = time.Second })
			known := h.token(ofPod(pod))
			strangers := make([]string, 12)
			for i := range strangers {
				strangers[i] = h.token(ofPod(pod))
			}
			wants(t, watched, known, "")
			wants(t, unwatched, known, "")
			timing.Within(t, 2*time.Minute, "the watch knows the pod", func() bool {
				return pods.State(string(pod.UID), time.Now()) == liveness.Alive
			})

			tc.stop(t, &shared)
			stopped := true
			defer func() {
				if stopped {
					tc.start(t, &shared)
				}
			}()
			answers := timing.Answers{}
			ask := func(what string, limit time.Duration, r *tokenreview.Reviewer, token string, want tokenreview.Reason) {
				_ = answers.Time(what, limit, func() error { wants(t, r, token, want); return nil })
			}
			for _, stranger := range strangers[:10] {
				ask("a stranger", 2200*time.Millisecond, watched, stranger, tokenreview.ValidatorUnavailable)
				ask("a known caller", 100*time.Millisecond, watched, known, "")
				ask("a known caller without a watch", 750*time.Millisecond, unwatched, known, "")
			}
			answers.Judge(t)
			if !watched.Down() {
				t.Error("the API server is down and nobody noticed")
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			if _, err := watched.Review(ctx, strangers[10], nil); time.Since(start) > 5*time.Second || err == nil {
				t.Errorf("with a deadline of a second: %v after %s", err, time.Since(start))
			}

			tc.start(t, &shared)
			stopped = false
			took := timing.Within(t, 30*time.Second, "a stranger is known again", func() bool {
				_, err := watched.Review(t.Context(), strangers[11], nil)
				return err == nil
			})
			t.Logf("reviews work again %s after the API server does", took)
			took = timing.Within(t, 30*time.Second, "the watch is trusted", func() bool { return pods.Trusted(time.Now()) })
			h.remove(pod, 0)
			took += timing.Within(t, 30*time.Second, "a deletion is seen again", func() bool {
				return pods.State(string(pod.UID), time.Now()) == liveness.Dead
			})
			t.Logf("the watch sees deletions %s later", took)
			wants(t, watched, known, tokenreview.PodNotLive)
		})
	}
}

// sink is a log that can be read while it is written.
type sink struct {
	mu  sync.Mutex
	log bytes.Buffer
}

func (s *sink) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(b)
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// TestNoTokenInAnyLog is T34: client-go at its most talkative writes out what it sends and gets.
func TestNoTokenInAnyLog(t *testing.T) {
	h := shared.home(t)
	pod := h.pod("here", h.node.Name)
	good, other, unbound := h.token(ofPod(pod)), h.token(ofPod(pod), "another"), h.token(nil)
	forged := good[:len(good)-8] + "AAAAAAAA"
	var log sink
	talkative(t, &log)

	pods, err := liveness.NewNodePods(h.Admin, h.node.Name, nil, liveness.Options{Log: klog.Background()})
	must(t, err)
	watching(t, pods)
	var said []string
	note := func(r *tokenreview.Reviewer, token string) {
		v, err := r.Review(t.Context(), token, nil)
		said = append(said, fmt.Sprintf("%+v %+v %#v", v, err, err))
	}
	backends := []*counted{h.backend(t, reviewerUser), h.backend(t, "system:serviceaccount:lanyard:nobody")}
	for _, b := range backends {
		r := reviewer(t, b, func(o *tokenreview.Options) { o.Pods = pods })
		for _, token := range []string{good, other, unbound, forged, " " + good, good + ".x"} {
			note(r, token)
		}
	}
	nowhere := h.ConfigForToken("own.bearer.token")
	nowhere.Host = "https://127.0.0.1:1"
	b, err := tokenreview.NewAPIServer(nowhere)
	must(t, err)
	note(reviewer(t, b), good)

	text := readable(log.String()) + strings.Join(said, "\n")
	// What is looked for would be found: a client that is not held back does write tokens out.
	decoy := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: h.namespace + "-decoy"}}
	_, err = h.Admin.AuthenticationV1().TokenReviews().Create(t.Context(), decoy, metav1.CreateOptions{})
	must(t, err)
	if !strings.Contains(readable(log.String()), decoy.Spec.Token) {
		t.Errorf("the log is not at its most talkative: %d bytes", len(text))
	}
	for _, token := range []string{good, other, unbound, forged} {
		for _, part := range parts(token) {
			if i := strings.Index(text, part[:40]); i >= 0 {
				t.Errorf("a token is in the log, after %q", text[max(0, i-200):i])
			}
		}
	}
}

// readable is a log with what its hexadecimal dumps say appended: client-go writes protobuf so, sixteen bytes a line.
func readable(log string) string {
	var dumped strings.Builder
	for line := range strings.Lines(log) {
		if cells := strings.SplitN(strings.TrimSpace(line), "|", 3); len(cells) == 3 && cells[2] == "" {
			dumped.WriteString(cells[1])
		}
	}
	return log + dumped.String()
}

// talkative sends klog's every word to w until the test ends.
func talkative(t *testing.T, w *sink) {
	t.Helper()
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	state := klog.CaptureState()
	t.Cleanup(state.Restore)
	for name, value := range map[string]string{"v": "10", "logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "FATAL"} {
		must(t, flags.Set(name, value))
	}
	klog.SetOutput(w)
	t.Cleanup(klog.Flush)
}
