package preview

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lanyard-k8s/lanyard/mutate"
)

// maker is the kind that controls the pods made from a template, and the username that creates them.
type maker struct {
	kind       mutate.GroupKind
	apiVersion string
	username   string
}

const controllerPrefix = "system:serviceaccount:kube-system:"

var (
	jobMaker        = maker{mutate.GroupKind{Group: "batch", Kind: "Job"}, "batch/v1", controllerPrefix + "job-controller"}
	replicaSetMaker = maker{mutate.GroupKind{Group: "apps", Kind: "ReplicaSet"}, "apps/v1", controllerPrefix + "replicaset-controller"}
	statefulMaker   = maker{mutate.GroupKind{Group: "apps", Kind: "StatefulSet"}, "apps/v1", controllerPrefix + "statefulset-controller"}
	daemonMaker     = maker{mutate.GroupKind{Group: "apps", Kind: "DaemonSet"}, "apps/v1", controllerPrefix + "daemon-set-controller"}
)

// makerOf finds who would make the pods of a template. A kind that is not known here makes its pods itself, as most
// controllers of custom kinds do.
func (a *admission) makerOf(d Document, field string) maker {
	m, known := builtInMaker(d.Kind, field)
	if !known {
		m = maker{kind: d.Kind, apiVersion: d.Version, username: fmt.Sprintf("<controller of %s>", d.Kind.Kind)}
	}
	for _, k := range a.Stamped {
		if k.GroupKind == m.kind && len(k.Creators) > 0 {
			m.username = k.Creators[0]
		}
	}
	return m
}

// builtInMaker knows the kinds whose pods are made by another kind in between, and the accounts of Kubernetes' own
// controllers.
func builtInMaker(kind mutate.GroupKind, field string) (maker, bool) {
	switch kind {
	case jobMaker.kind, mutate.GroupKind{Group: "batch", Kind: "CronJob"},
		mutate.GroupKind{Group: "jobset.x-k8s.io", Kind: "JobSet"}, mutate.GroupKind{Group: "trainer.kubeflow.org", Kind: "TrainJob"}:
		return jobMaker, true
	case mutate.GroupKind{Group: "apps", Kind: "Deployment"}, replicaSetMaker.kind:
		return replicaSetMaker, true
	case statefulMaker.kind, mutate.GroupKind{Group: "leaderworkerset.x-k8s.io", Kind: "LeaderWorkerSet"}:
		return statefulMaker, true
	case daemonMaker.kind:
		return daemonMaker, true
	case mutate.GroupKind{Group: "ray.io", Kind: "RayJob"}, mutate.GroupKind{Group: "ray.io", Kind: "RayService"}:
		if strings.HasPrefix(field, "spec.submitterPodTemplate") {
			return jobMaker, true
		}
		cluster := mutate.GroupKind{Group: "ray.io", Kind: "RayCluster"}
		return maker{cluster, "ray.io/v1", "<controller of RayCluster>"}, true
	}
	return maker{}, false
}

// podFrom makes the pod that a controller would make from a template. hasMetadata says whether the template itself has
// metadata, since the pod always does.
func podFrom(template []byte, m maker) (pod []byte, hasMetadata bool, err error) {
	var fields struct {
		Metadata map[string]json.RawMessage `json:"metadata"`
		Spec     json.RawMessage            `json:"spec"`
	}
	if err := json.Unmarshal(template, &fields); err != nil {
		return nil, false, fmt.Errorf("reading a pod template: metadata must be a mapping")
	}
	hasMetadata = fields.Metadata != nil
	if !hasMetadata {
		fields.Metadata = map[string]json.RawMessage{}
	}
	owner := []map[string]any{{
		"apiVersion": m.apiVersion, "kind": m.kind.Kind, "name": "preview",
		"uid": "00000000-0000-4000-8000-000000000000", "controller": true, "blockOwnerDeletion": true,
	}}
	if fields.Metadata["ownerReferences"], err = json.Marshal(owner); err != nil {
		return nil, false, fmt.Errorf("writing the owner: %w", err)
	}
	pod, err = json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": fields.Metadata, "spec": fields.Spec})
	if err != nil {
		return nil, false, fmt.Errorf("writing the pod: %w", err)
	}
	return pod, hasMetadata, nil
}
