package tokenreview

import (
	"context"
	"errors"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestADenialIsBelievedWhenItLasts: an API server that has just started forbids everything for a moment. A publisher would drop its
// events on any other answer than Unavailable.
func TestADenialIsBelievedWhenItLasts(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "authentication.k8s.io", Resource: "tokenreviews"}, "", errors.New("no rule"))
	unauthorized := apierrors.NewUnauthorized("who is that")
	for name, tc := range map[string]struct {
		good  bool            // it has let us review before
		after []time.Duration // the denials, each so long after the one before
		want  []Reason
	}{
		"one that has never let us":           {false, []time.Duration{0}, []Reason{ValidatorError}},
		"one that has just started":           {true, []time.Duration{0, time.Second}, []Reason{ValidatorUnavailable, ValidatorUnavailable}},
		"a right that was taken away":         {true, []time.Duration{0, 20 * time.Second, 10 * time.Second}, []Reason{ValidatorUnavailable, ValidatorUnavailable, ValidatorError}},
		"an old denial is no beginning":       {true, []time.Duration{0, 2 * time.Minute}, []Reason{ValidatorUnavailable, ValidatorUnavailable}},
		"denials that come now and then last": {true, []time.Duration{0, 25 * time.Second, 25 * time.Second, 25 * time.Second}, []Reason{ValidatorUnavailable, ValidatorUnavailable, ValidatorError, ValidatorError}},
	} {
		for what, denial := range map[string]error{"forbidden": forbidden, "unauthorized": unauthorized} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				var d denials
				if tc.good {
					d.over()
				}
				now := epoch()
				for i, after := range tc.after {
					now = now.Add(after)
					if got := d.weigh(classify(denial, "a.b.c"), now); got.Reason != tc.want[i] {
						t.Errorf("denial %d: %s, want %s", i, got.Reason, tc.want[i])
					}
				}
				d.over()
				if got := d.weigh(classify(denial, "a.b.c"), now.Add(time.Hour)); got.Reason != ValidatorUnavailable {
					t.Errorf("after a success: %s, want %s", got.Reason, ValidatorUnavailable)
				}
			})
		}
	}
}

// TestAReviewerWaitsOutADenial goes through a Reviewer: what was forbidden for a moment is an outage, and then a verdict.
func TestAReviewerWaitsOutADenial(t *testing.T) {
	t.Parallel()
	denied, g := false, newRig(t)
	g.backend.say = func(context.Context, string) (authenticationv1.TokenReviewStatus, error) {
		if denied {
			return authenticationv1.TokenReviewStatus{}, apierrors.NewForbidden(schema.GroupResource{Resource: "tokenreviews"}, "", errors.New("no rule"))
		}
		return yes("pod-1"), nil
	}
	g.wants(t, tokenFor(minted{mark: "one"}), "")
	denied = true
	g.wants(t, tokenFor(minted{mark: "two"}), ValidatorUnavailable)
	denied = false
	g.wants(t, tokenFor(minted{mark: "two"}), "")
}

// TestADenialRightAfterTheStartIsAnOutage: the self-test has been let in, so that a first denial is that of an API server which starts.
func TestADenialRightAfterTheStartIsAnOutage(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		passed bool
		want   Reason
	}{
		"the self-test has passed": {true, ValidatorUnavailable},
		"nobody has been let in":   {false, ValidatorError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.backend.say = func(context.Context, string) (authenticationv1.TokenReviewStatus, error) {
				return authenticationv1.TokenReviewStatus{}, apierrors.NewForbidden(schema.GroupResource{Resource: "tokenreviews"}, "", errors.New("no rule"))
			}
			if tc.passed {
				g.LetIn()
			}
			g.wants(t, tokenFor(minted{mark: "first"}), tc.want)
			g.clock.Step(believeAfter)
			g.wants(t, tokenFor(minted{mark: "later"}), ValidatorError)
		})
	}
}
