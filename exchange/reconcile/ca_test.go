package reconcile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPublishersNamespacesNeedTheCAForTLSAlone: without a connector's Deployment their pods call a socket, the right to keep the
// certificate there is not given, and every round would tell of it.
func TestPublishersNamespacesNeedTheCAForTLSAlone(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		ca   CA
		want []string
	}{
		"without a Deployment": {CA{}, []string{"lanyard.dev/jobs=managed"}},
		"with one":             {CA{Publishers: true}, []string{"lanyard.dev/jobs=managed", "lanyard.dev/publishers=enabled"}},
		"listed besides":       {CA{Namespaces: []string{"a", "b"}}, []string{"lanyard.dev/jobs=managed", "kubernetes.io/metadata.name in (a,b)"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, one := range tc.ca.selections() {
				got = append(got, one.selector)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
