package provenance

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

const (
	jobController  = "system:serviceaccount:kube-system:job-controller"
	cronController = "system:serviceaccount:kube-system:cronjob-controller"
	submitterSA    = "system:serviceaccount:platform:submitter"
)

func job() GroupKind     { return GroupKind{"batch", "Job"} }
func cronJob() GroupKind { return GroupKind{"batch", "CronJob"} }

// rules are the defaults, with a service account that may submit.
func rules() Rules {
	return Rules{
		Kinds:      []Kind{{job(), []string{jobController}}},
		Delegating: []Delegate{{cronController, []GroupKind{cronJob()}}},
		Submitters: []string{submitterSA},
		Audience:   "nemo-platform",
	}
}

// at is a time in minutes; the epoch is at 10, the namespace managed since 5, and it is 60 now.
func at(minute int) metav1.Time {
	return metav1.NewTime(time.Date(2026, 1, 1, 12, minute, 0, 0, time.UTC))
}

func guards() Guards {
	return Guards{InOrder: true, Epoch: at(10), Since: at(5), Managed: true, Kinds: map[GroupKind]metav1.Time{job(): at(5), cronJob(): at(5)}}
}

func object(kind GroupKind, name, stamp string, owner *Object) Object {
	o := Object{Reference: Reference{kind, "ns", name, "uid-" + name}, Stamp: stamp, Stamped: true, Created: at(20), Generation: 1}
	if owner != nil {
		o.Controllers = []metav1.OwnerReference{controlledBy(owner.Reference)}
	}
	return o
}

func controlledBy(r Reference) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{APIVersion: r.Group + "/v1", Kind: r.Kind, Name: r.Name, UID: types.UID(r.UID), Controller: &yes}
}

func pod(stamp string, owner *Object) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "pod", UID: "uid-pod", CreationTimestamp: at(30),
			Annotations: map[string]string{wire.AnnotationCreatedBy: stamp},
		},
		Spec: corev1.PodSpec{
			ServiceAccountName: "default",
			Volumes: []corev1.Volume{{Name: wire.VolumeJob, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "nemo-platform", Path: wire.TokenFile}}},
			}}}},
		},
	}
	if owner != nil {
		p.OwnerReferences = []metav1.OwnerReference{controlledBy(owner.Reference)}
	}
	return p
}

func live(objects ...Object) Live {
	l := Live{}
	for _, o := range objects {
		l[o.Reference] = &o
	}
	return l
}
