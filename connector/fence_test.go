package connector

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/lanyard-k8s/lanyard/connector/sink"
)

func TestTheFence(t *testing.T) {
	t.Parallel()
	forbidden := func(text string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, own, errors.New(text))
	}
	policy := forbidden("ValidatingAdmissionPolicy 'lanyard-node-status' denied request")
	for name, tc := range map[string]struct {
		own, other error // what patching the own node and another comes to
		want       error
		stands     bool
	}{
		"stands":                             {policy, policy, nil, true},
		"is missing":                         {nil, nil, ErrNoFence, false},
		"lets our account at other nodes":    {policy, nil, ErrNoFence, false},
		"cannot be tried for want of rights": {forbidden("no"), policy, nil, false},
		"cannot be tried in an outage":       {errReset, policy, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: own}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: foreign}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			client.PrependReactor("patch", "nodes", func(a k8stesting.Action) (bool, runtime.Object, error) {
				patch := a.(k8stesting.PatchActionImpl)
				if len(patch.PatchOptions.DryRun) != 1 || patch.Subresource != "status" {
					t.Error("not a dry run on the status")
				}
				if patch.Name == own {
					if !tc.stands && tc.own != nil && !errors.Is(tc.own, policy) {
						cancel() // it would be tried again for ever
					}
					return true, &corev1.Node{}, tc.own
				}
				return true, &corev1.Node{}, tc.other
			})
			f := NewFence(client, own, logr.Discard())
			f.every, f.grace = time.Millisecond, 5*time.Millisecond
			if err := f.Run(ctx); !errors.Is(err, tc.want) {
				t.Errorf("%v, want %v", err, tc.want)
			}
			to := &outlet{name: sink.Kubernetes}
			_, err := f.Around(to).Deliver(t.Context(), keyed("k"))
			if delivered := err == nil; delivered != tc.stands || delivered != (len(to.got()) == 1) {
				t.Errorf("delivered = %t (%v), want %t", delivered, err, tc.stands)
			}
		})
	}
}
