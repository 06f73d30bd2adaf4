//go:build linux

package publishers

import (
	"maps"
	"path"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// The namespaces that publishers run in. The values of the release name the accounts (see values in main_test.go).
const (
	listedSpace     = "publishers-listed"     // its account monitor is on the list publishers
	crossSpace      = "publishers-crossnode"  // its account fleet-monitor may name other nodes
	labelledSpace   = "publishers-labelled"   // its pods may ask for the role by a label
	restrictedSpace = "publishers-restricted" // PodSecurity restricted; its account monitor is listed, also for the Deployment
	strangerSpace   = "publishers-strangers"  // nothing is known of it
)

const (
	monitor      = "monitor"
	fleetMonitor = "fleet-monitor"
	hostDir      = "/var/run/nvsentinel"
	ownToken     = wire.DefaultPublisherMountPath + "/" + wire.TokenFile
	nobody       = 65534
)

// change alters a pod before it is created.
type change func(*corev1.Pod)

// publisherPod is a pod as publishers' own manifests have it: it mounts the socket's directory, read-only, and says nothing of a token.
func (r *rig) publisherPod(space, name, account, node string, args ...string) *corev1.Pod {
	pod := r.plainPod(space, name, account, node, args...)
	pod.Spec.Volumes = []corev1.Volume{{Name: "connector", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: hostDir}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "connector", MountPath: hostDir, ReadOnly: true}}
	return pod
}

// plainPod runs the workload program, within what PodSecurity calls restricted.
func (r *rig) plainPod(space, name, account, node string, args ...string) *corev1.Pod {
	yes, user, grace := true, int64(nobody), int64(2)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			ServiceAccountName: account, RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace,
			NodeSelector: map[string]string{corev1.LabelHostname: node},
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: &yes, RunAsUser: &user, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{r.container("main", args...)},
		},
	}
}

// container runs the workload program.
func (r *rig) container(name string, args ...string) corev1.Container {
	no := false
	return corev1.Container{
		Name: name, Image: r.image, ImagePullPolicy: corev1.PullIfNotPresent, Args: args,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// asking asks for the publisher role by its label.
func asking(pod *corev1.Pod) { pod.Labels[wire.LabelRole] = wire.RolePublisher }

// annotated adds an annotation.
func annotated(key, value string) change {
	return func(pod *corev1.Pod) {
		annotations := map[string]string{key: value}
		maps.Copy(annotations, pod.Annotations)
		pod.Annotations = annotations
	}
}

// alwaysOn has the kubelet start the container again whenever it ends.
func alwaysOn(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyAlways }

// asUser runs the pod as a user, by which the connector's list of violations tells callers apart whom nobody vouches for.
func asUser(user int64) change {
	return func(pod *corev1.Pod) { pod.Spec.SecurityContext.RunAsUser = &user }
}

// volume adds a volume to the pod, mounted in its first container.
func volume(name, at string, readOnly bool, source corev1.VolumeSource) change {
	return func(pod *corev1.Pod) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		c := &pod.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: at, ReadOnly: readOnly})
	}
}

// The file for which a newcomer waits, in a directory of its own that the test reaches by the node.
const (
	goVolume = "go"
	goFile   = "/go/now"
)

// waiting gives the pod the directory in which the test lays the file that it waits for.
func waiting(pod *corev1.Pod) {
	volume(goVolume, path.Dir(goFile), true, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})(pod)
}

// nodeOf is the node that a pod runs on, or is to run on as long as nobody has scheduled it.
func nodeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	return pod.Spec.NodeSelector[corev1.LabelHostname]
}
