//go:build linux

package jobs

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// revoke revokes a submission.
func revoke(t *testing.T, h *house.House, uid string) {
	t.Helper()
	h.Revoke(t, exchangePod(t, h), uid)
}

// exchangePod is the exchange's running pod.
func exchangePod(t *testing.T, h *house.House) *corev1.Pod {
	t.Helper()
	var found *corev1.Pod
	house.Eventually(t, "the exchange to be ready", func(ctx context.Context) error {
		list, err := h.Admin.CoreV1().Pods(house.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=exchange"})
		if err != nil {
			return err
		}
		for i, p := range list.Items {
			if house.IsReady(&p) && p.DeletionTimestamp == nil {
				found = &list.Items[i]
				return nil
			}
		}
		return fmt.Errorf("none of its %d pods is ready", len(list.Items))
	})
	return found
}
