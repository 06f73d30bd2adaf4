//go:build unix

package integration

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// makeNode makes a node and returns it with a client that acts as its kubelet.
func makeNode(t *testing.T, name string) (*corev1.Node, *kubernetes.Clientset) {
	t.Helper()
	nodes := admin(t).CoreV1().Nodes()
	if _, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"kubernetes.io/hostname": name},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { restore(t, nodes.Delete(context.Background(), name, metav1.DeleteOptions{})) })
	// Nobody would take away the taint that a new node is born with.
	node, err := nodes.Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node, as(t, "system:node:"+name, "system:nodes")
}

// bind schedules a pod, as a scheduler does.
func bind(t *testing.T, pod *corev1.Pod, node string) {
	t.Helper()
	if err := tryBinding(t, pod, metav1.ObjectMeta{}, node); err != nil {
		t.Fatal(err)
	}
}

// tryBinding binds a pod with this metadata on the Binding.
func tryBinding(t *testing.T, pod *corev1.Pod, meta metav1.ObjectMeta, node string) error {
	t.Helper()
	meta.Name, meta.Namespace = pod.Name, pod.Namespace
	return admin(t).CoreV1().Pods(pod.Namespace).Bind(t.Context(), &corev1.Binding{
		ObjectMeta: meta, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}

// TestMirrorPod has a kubelet show a static pod in a managed namespace: it is stamped and left as it is, since the kubelet
// runs its own copy whatever the API server says.
func TestMirrorPod(t *testing.T) {
	t.Parallel()
	namespace := managed(t)
	node, kubelet := makeNode(t, "mirror-node")
	static := func() *corev1.Pod {
		return newPod(annotated(wire.AnnotationMirror, "hash"), setting(wire.EnvPrincipal, "static"), func(p *corev1.Pod) {
			p.Name, p.GenerateName, p.Spec.NodeName = "static", "", node.Name
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: new(true)}}
		})
	}
	pod, err := tryPod(t, kubelet, namespace, static())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{wire.AnnotationMirror: "hash", wire.AnnotationCreatedBy: "system:node:" + node.Name}
	if diff := cmp.Diff([]any{want, 0, ""}, []any{pod.Annotations, len(pod.Spec.Volumes), pod.Labels[wire.LabelInjected]}); diff != "" {
		t.Errorf("annotations, volumes and injected label (-want +got):\n%s", diff)
	}

	alice := editor(t, "alice", namespace)
	_, err = tryPod(t, alice, namespace, newPod(annotated(wire.AnnotationMirror, "hash"), setting(wire.EnvPrincipal, "root")))
	refused(t, err, `"job.mutate.lanyard.dev" denied`, wire.EnvPrincipal)
	// What a user writes is injected like any other pod; the API server itself then minds a mirror pod with a token.
	_, err = tryPod(t, alice, namespace, newPod(annotated(wire.AnnotationMirror, "hash")))
	refused(t, err, "a mirror pod may not use ServiceAccountToken volume projections")
}

// TestKubeletGetsTheTokenOfItsPod asks the token API as a kubelet does for a job's pod, and reviews the answer.
func TestKubeletGetsTheTokenOfItsPod(t *testing.T) {
	t.Parallel()
	namespace := managed(t)
	node, kubelet := makeNode(t, "token-node")
	pod := makePod(t, editor(t, "alice", namespace), namespace)
	bind(t, pod, node.Name)
	var answer *authenticationv1.TokenRequest
	eventually(t, "the kubelet gets the token", func(ctx context.Context) (ok bool, err error) {
		answer, err = kubelet.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "default", &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{
				Audiences:      []string{wire.DefaultJobAudience},
				BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
			},
		}, metav1.CreateOptions{})
		return err == nil, err // the node authorizer learns of the binding by a watch
	})
	review, err := admin(t).AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: answer.Status.Token, Audiences: []string{wire.DefaultJobAudience}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	extra := review.Status.User.Extra
	got := []any{review.Status.Authenticated, review.Status.User.Username,
		extra["authentication.kubernetes.io/pod-uid"], extra["authentication.kubernetes.io/node-name"]}
	want := []any{true, wire.Account{Namespace: namespace, Name: "default"}.Username(),
		authenticationv1.ExtraValue{string(pod.UID)}, authenticationv1.ExtraValue{node.Name}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("whose token it is (-want +got):\n%s", diff)
	}
}

// TestBindingMetadata proves that a Binding, which is copied onto its pod, cannot carry what a policy keeps off the pod.
func TestBindingMetadata(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t, nil)
	node, _ := makeNode(t, "binding-node")
	pod := makePod(t, editor(t, "alice", namespace), namespace)
	for name, meta := range map[string]metav1.ObjectMeta{
		"the stamp":              {Annotations: map[string]string{wire.AnnotationCreatedBy: "bob"}},
		"the stamp of the truth": {Annotations: map[string]string{wire.AnnotationCreatedBy: "admin"}},
		"any annotation of ours": {Annotations: map[string]string{wire.Prefix + "x": ""}},
		"a label of ours":        {Labels: map[string]string{wire.LabelInjected: "job"}},
		"a label for adoption":   {Labels: map[string]string{"batch.kubernetes.io/controller-uid": "x"}},
		"an old such label":      {Labels: map[string]string{"job-name": "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, tryBinding(t, pod, meta, node.Name), "lanyard-binding-metadata", "a Binding is copied onto its pod", "remove it")
			meta.Name, meta.Namespace = pod.Name, namespace
			err := admin(t).CoreV1().RESTClient().Post().Namespace(namespace).Resource("bindings").
				Body(&corev1.Binding{ObjectMeta: meta, Target: corev1.ObjectReference{Kind: "Node", Name: node.Name}}).Do(t.Context()).Error()
			refused(t, err, "lanyard-binding-metadata")
		})
	}
	accepted(t, tryBinding(t, pod, metav1.ObjectMeta{Annotations: map[string]string{"scheduler.example.com/gpu": "0"}}, node.Name))
	bound, err := admin(t).CoreV1().Pods(namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil || bound.Spec.NodeName != node.Name || bound.Annotations["scheduler.example.com/gpu"] != "0" {
		t.Errorf("the pod is bound to %q with %v (%v)", bound.Spec.NodeName, bound.Annotations, err)
	}
}
