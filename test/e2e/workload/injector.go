package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
)

// sidecarFlags say what the webhook adds to pods.
type sidecarFlags struct {
	name, image string
	first       bool
	native      bool
	mount       string
}

// runInjector is somebody else's mutating webhook, such as a service mesh's: it adds a sidecar to every pod that it is asked about
// and that has none.
func runInjector(ctx context.Context, args []string, p printer) error {
	var f sidecarFlags
	s := flags("injector")
	listen := s.String("listen", ":9443", "address to listen on")
	dir := s.String("tls-dir", "/tls", "directory with tls.crt and tls.key")
	s.StringVar(&f.name, "name", "mesh-proxy", "the sidecar's name")
	s.StringVar(&f.image, "image", "", "the sidecar's image; it is run as `workload sleep`")
	s.BoolVar(&f.first, "first", true, "put it before the pod's own containers, as meshes do")
	s.BoolVar(&f.native, "native", false, "make it an init container that goes on (restartPolicy Always)")
	s.StringVar(&f.mount, "mount", "", "a volume of the pod that the sidecar mounts, if the pod has it: what a mesh must not do")
	if err := parse(s, args); err != nil {
		return err
	}
	if f.image == "" {
		return fmt.Errorf("%w: injector needs --image", errUsage)
	}
	return serve(ctx, *listen, *dir, p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if json.NewDecoder(r.Body).Decode(&review) != nil || review.Request == nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		answer, err := f.answer(review.Request)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		p.print(map[string]any{"namespace": review.Request.Namespace, "name": review.Request.Name, "patched": answer.Patch != nil})
		review.Response, review.Request = answer, nil
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review) // the API server tells its own users of answers that it did not get
	}))
}

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// answer allows the pod, with the sidecar in it.
func (f sidecarFlags) answer(req *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	allowed := &admissionv1.AdmissionResponse{UID: req.UID, Allowed: true}
	var pod corev1.Pod
	if err := json.Unmarshal(req.Object.Raw, &pod); err != nil {
		return nil, errors.New("the object is no pod")
	}
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		if c.Name == f.name {
			return allowed, nil
		}
	}
	patch, err := json.Marshal(f.operations(&pod))
	if err != nil {
		return nil, err
	}
	kind := admissionv1.PatchTypeJSONPatch
	allowed.Patch, allowed.PatchType = patch, &kind
	return allowed, nil
}

// operations put the sidecar where it is wanted.
func (f sidecarFlags) operations(pod *corev1.Pod) []operation {
	c := f.container(pod)
	list, have := "/spec/containers", len(pod.Spec.Containers)
	if f.native {
		always := corev1.ContainerRestartPolicyAlways
		c.RestartPolicy, list, have = &always, "/spec/initContainers", len(pod.Spec.InitContainers)
	}
	switch {
	case have == 0:
		return []operation{{Op: "add", Path: list, Value: []corev1.Container{c}}}
	case f.first:
		return []operation{{Op: "add", Path: list + "/0", Value: c}}
	default:
		return []operation{{Op: "add", Path: list + "/-", Value: c}}
	}
}

// container is the sidecar.
func (f sidecarFlags) container(pod *corev1.Pod) corev1.Container {
	no, yes := false, true
	c := corev1.Container{
		Name: f.name, Image: f.image, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"sleep"},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, RunAsNonRoot: &yes,
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	for _, v := range pod.Spec.Volumes {
		if f.mount != "" && v.Name == f.mount {
			c.VolumeMounts = []corev1.VolumeMount{{Name: v.Name, MountPath: "/stolen", ReadOnly: true}}
		}
	}
	return c
}
