package mutate_test

import (
	"testing"

	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// TestPodsThatOnlyMentionWindowsAreInjected are pods that run on Linux all the same.
func TestPodsThatOnlyMentionWindowsAreInjected(t *testing.T) {
	t.Parallel()
	options := podtest.Spec("securityContext", podtest.Raw(`{"windowsOptions":{"runAsUserName":"x"}}`))
	affinity := func(terms string) podtest.Edit {
		return podtest.Spec("affinity", podtest.Raw(`{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[`+terms+`]}}}`))
	}
	for name, edits := range map[string][]podtest.Edit{
		"spec.os decides":                {podtest.Spec("os", podtest.Raw(`{"name":"linux"}`)), podtest.Spec("nodeSelector", podtest.Raw(`{"kubernetes.io/os":"windows"}`))},
		"the selector beats options":     {podtest.Spec("nodeSelector", podtest.Raw(`{"kubernetes.io/os":"linux"}`)), options},
		"the new selector beats the old": {podtest.Spec("nodeSelector", podtest.Raw(`{"beta.kubernetes.io/os":"windows","kubernetes.io/os":"linux"}`))},
		"one of two terms is Linux": {
			affinity(`{"matchExpressions":[{"key":"kubernetes.io/os","operator":"In","values":["windows"]}]},{"matchExpressions":[{"key":"kubernetes.io/os","operator":"In","values":["linux"]}]}`),
		},
		"either system will do": {affinity(`{"matchExpressions":[{"key":"kubernetes.io/os","operator":"In","values":["linux","windows"]}]}`)},
		"anything but Windows":  {affinity(`{"matchExpressions":[{"key":"kubernetes.io/os","operator":"NotIn","values":["windows"]}]}`)},
		"no terms":              {affinity(``)},
		"null options":          {podtest.Spec("securityContext", podtest.Raw(`{"windowsOptions":null}`))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := mutate.Pod(jobRequest(podtest.Pod(edits...).JSON()), testRules())
			if err != nil || d.Outcome != mutate.Injected {
				t.Errorf("outcome %q, want injected: %v %v", d.Outcome, found(d), err)
			}
		})
	}
}
