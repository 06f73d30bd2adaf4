//go:build unix

package house

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes"
)

// MakeVolume makes a PersistentVolume for the exchange's claim on the first node, since nothing in the cluster makes volumes by
// itself. It is of the kind local, on which the kubelet honours a pod's fsGroup, as most drivers do. Each is empty; a test that
// installs anew after an uninstall without data makes another one.
func (h *House) MakeVolume(ctx context.Context) error {
	node, name := nodes.Names()[0], fmt.Sprintf("e2e-volume-%d", h.volumes.Add(1))
	path := "/var/lib/lanyard-volumes/" + name
	if err := os.MkdirAll(h.Cluster.NodeDir(node, path), 0o755); err != nil {
		return err
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
	}
	if _, err := h.Admin.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making PersistentVolume %s: %w", name, err)
	}
	return nil
}
