package mutate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// The volumes and mounts as Lanyard writes them under testRules, and one of somebody's own.
const (
	jobVolume       = `{"name":"nmp-workload-identity","projected":{"sources":[{"serviceAccountToken":{"audience":"nemo-platform","expirationSeconds":600,"path":"token"}}]}}`
	publisherVolume = `{"name":"platform-connector-token","projected":{"sources":[{"serviceAccountToken":{"audience":"platform-connector.nvsentinel.nvidia.com","expirationSeconds":3600,"path":"token"}}]}}`
	jobFile         = wire.DefaultJobMountPath + "/token"
	foreignVolume   = `{"name":"mine","emptyDir":{}}`
)

// found lists violations as "reason field".
func found(d mutate.Decision) []string {
	var out []string
	for _, v := range d.Violations {
		out = append(out, string(v.Reason)+" "+v.Field)
	}
	return out
}

func main(edits ...podtest.Edit) podtest.Edit {
	return podtest.Containers(podtest.Container("main", edits...))
}

func mounting(path string) []podtest.Edit {
	return []podtest.Edit{podtest.Volume(foreignVolume), main(podtest.Mount("mine", path, false))}
}

// refusals are pods of a managed namespace that nobody gets past either entry, whatever else they carry.
func refusals() map[string]struct {
	pod  []podtest.Edit
	want []string
} {
	env := func(list, field string) []string {
		return []string{"reserved_env spec." + list + "[0].env[0]." + field}
	}
	return map[string]struct {
		pod  []podtest.Edit
		want []string
	}{
		"A9: a reserved name with a literal":     {[]podtest.Edit{main(podtest.Env("NMP_PRINCIPAL", "x"))}, env("containers", "name")},
		"A9: a reserved name that expands":       {[]podtest.Edit{main(podtest.Env("NMP_ACCESS_TOKEN", "$(X)"))}, env("containers", "name")},
		"A9: a reserved name from a secret":      {[]podtest.Edit{main(podtest.EnvRaw(`{"name":"NEMO_WORKLOAD_TOKEN","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}`))}, env("containers", "name")},
		"A9: a reserved name from a file":        {[]podtest.Edit{main(podtest.EnvRaw(`{"name":"NMP_WORKLOAD_X","valueFrom":{"fileKeyRef":{"path":"p","key":"k","volumeName":"v"}}}`))}, env("containers", "name")},
		"A9: a reserved name from the future":    {[]podtest.Edit{main(podtest.EnvRaw(`{"name":"NMP_WORKFLOW_X","valueFrom":{"future":{}}}`))}, env("containers", "name")},
		"A9: the token's own variable elsewhere": {[]podtest.Edit{main(podtest.Env(wire.EnvSubjectTokenFile, "/theirs"))}, env("containers", "name")},
		"the token's own variable emptied":       {[]podtest.Edit{main(podtest.Env(wire.EnvSubjectTokenFile, ""))}, env("containers", "name")},
		"A10: a reserved name in an init container": {
			[]podtest.Edit{podtest.In("initContainers", podtest.Container("i", podtest.Env("NMP_PRINCIPAL", "x")))}, env("initContainers", "name"),
		},
		"A10: a reserved name in a native sidecar": {
			[]podtest.Edit{podtest.In("initContainers", podtest.Container("i", podtest.Sidecar(), podtest.Env("NMP_PRINCIPAL", "x")))}, env("initContainers", "name"),
		},
		"A10: a reserved name in an ephemeral container": {
			[]podtest.Edit{podtest.In("ephemeralContainers", podtest.Container("e", podtest.Env("NMP_PRINCIPAL", "x")))}, env("ephemeralContainers", "name"),
		},
		"our literal in an init container that gets no token": {
			[]podtest.Edit{podtest.In("initContainers", podtest.Container("i", podtest.Env(wire.EnvSubjectTokenFile, jobFile)))}, env("initContainers", "name"),
		},
		"our literal in a skipped container": {
			[]podtest.Edit{main(), podtest.Containers(podtest.Container("istio-proxy", podtest.Env(wire.EnvSubjectTokenFile, jobFile)))}, []string{"reserved_env spec.containers[1].env[0].name"},
		},
		"our literal in a pod without identity": {
			[]podtest.Edit{podtest.Label(wire.LabelRole, "none"), main(podtest.Env(wire.EnvSubjectTokenFile, jobFile))}, env("containers", "name"),
		},
		"A11: ours, then theirs": {
			[]podtest.Edit{main(podtest.Env(wire.EnvSubjectTokenFile, jobFile), podtest.Env(wire.EnvSubjectTokenFile, "/theirs"))}, []string{"reserved_env spec.containers[0].env[1].name"},
		},
		"ours twice": {
			[]podtest.Edit{main(podtest.Env(wire.EnvSubjectTokenFile, jobFile), podtest.Env(wire.EnvSubjectTokenFile, jobFile))}, []string{"duplicate_env spec.containers[0].env[1].name"},
		},
		"A12: an envFrom prefix that completes a name": {[]podtest.Edit{main(podtest.EnvFrom("NMP_"))}, []string{"env_from_prefix spec.containers[0].envFrom[0].prefix"}},
		"A1: the audience under another volume's name": {
			[]podtest.Edit{podtest.Volume(`{"name":"mine","projected":{"sources":[{"serviceAccountToken":{"audience":"nemo-platform","path":"t"}}]}}`)},
			[]string{"audience_forbidden spec.volumes[0].projected.sources[0].serviceAccountToken.audience"},
		},
		"A2: the audience in a second source": {
			[]podtest.Edit{podtest.Volume(`{"name":"mine","projected":{"sources":[{"configMap":{"name":"x"}},{"serviceAccountToken":{"audience":"nemo-platform","path":"t"}}]}}`)},
			[]string{"audience_forbidden spec.volumes[0].projected.sources[1].serviceAccountToken.audience"},
		},
		"the publishers' audience in a job": {
			[]podtest.Edit{podtest.Volume(publisherVolume)}, []string{"audience_forbidden spec.volumes[0].projected.sources[0].serviceAccountToken.audience"},
		},
		"both audiences in our volume": {
			[]podtest.Edit{podtest.Volume(`{"name":"nmp-workload-identity","projected":{"sources":[{"serviceAccountToken":{"audience":"nemo-platform","expirationSeconds":600,"path":"token"}},{"serviceAccountToken":{"audience":"platform-connector.nvsentinel.nvidia.com","path":"p"}}]}}`)},
			[]string{"volume_conflict spec.volumes[0]", "audience_forbidden spec.volumes[0].projected.sources[1].serviceAccountToken.audience"},
		},
		"A4: our volume's name with a hostPath": {
			[]podtest.Edit{podtest.Volume(`{"name":"nmp-workload-identity","hostPath":{"path":"/"}}`)}, []string{"volume_conflict spec.volumes[0]"},
		},
		"A5: our volume with another mode": {
			[]podtest.Edit{podtest.Volume(`{"name":"nmp-workload-identity","projected":{"defaultMode":511,"sources":[{"serviceAccountToken":{"audience":"nemo-platform","expirationSeconds":600,"path":"token"}}]}}`)}, []string{"volume_conflict spec.volumes[0]"},
		},
		"A5: our volume with another path": {
			[]podtest.Edit{podtest.Volume(`{"name":"nmp-workload-identity","projected":{"sources":[{"serviceAccountToken":{"audience":"nemo-platform","expirationSeconds":600,"path":"x"}}]}}`)}, []string{"volume_conflict spec.volumes[0]"},
		},
		"A40: our volume with a longer life": {
			[]podtest.Edit{podtest.Volume(`{"name":"nmp-workload-identity","projected":{"sources":[{"serviceAccountToken":{"audience":"nemo-platform","expirationSeconds":4294967296,"path":"token"}}]}}`)}, []string{"volume_conflict spec.volumes[0]"},
		},
		"our volume with a field of the future": {
			[]podtest.Edit{podtest.Volume(`{"name":"nmp-workload-identity","future":1,"projected":{"sources":[{"serviceAccountToken":{"audience":"nemo-platform","expirationSeconds":600,"path":"token"}}]}}`)}, []string{"volume_conflict spec.volumes[0]"},
		},
		"the CA's volume from a secret": {[]podtest.Edit{podtest.Volume(`{"name":"nmp-platform-ca","secret":{"secretName":"x"}}`)}, []string{"volume_conflict spec.volumes[0]"}},
		"A6: our volume in an init container": {
			[]podtest.Edit{podtest.In("initContainers", podtest.Container("i", podtest.Mount(wire.VolumeJob, wire.DefaultJobMountPath, true)))}, []string{"mount_conflict spec.initContainers[0].volumeMounts[0]"},
		},
		"A6: our volume in a skipped sidecar": {
			[]podtest.Edit{main(), podtest.Containers(podtest.Container("vault-agent", podtest.Mount(wire.VolumeJob, wire.DefaultJobMountPath, true)))}, []string{"mount_conflict spec.containers[1].volumeMounts[0]"},
		},
		"A6: our volume in an ephemeral container": {
			[]podtest.Edit{podtest.In("ephemeralContainers", podtest.Container("e", podtest.Mount(wire.VolumeJob, wire.DefaultJobMountPath, true)))}, []string{"mount_conflict spec.ephemeralContainers[0].volumeMounts[0]"},
		},
		"A8: our volume by subPath":     {[]podtest.Edit{main(podtest.MountRaw(`{"name":"nmp-workload-identity","mountPath":"` + jobFile + `","readOnly":true,"subPath":"token"}`))}, []string{"mount_conflict spec.containers[0].volumeMounts[0]"}},
		"A8: our volume by subPathExpr": {[]podtest.Edit{main(podtest.MountRaw(`{"name":"nmp-workload-identity","mountPath":"` + wire.DefaultJobMountPath + `","readOnly":true,"subPathExpr":"$(A)"}`))}, []string{"mount_conflict spec.containers[0].volumeMounts[0]"}},
		"A8: our volume propagated":     {[]podtest.Edit{main(podtest.MountRaw(`{"name":"nmp-workload-identity","mountPath":"` + wire.DefaultJobMountPath + `","readOnly":true,"mountPropagation":"Bidirectional"}`))}, []string{"mount_conflict spec.containers[0].volumeMounts[0]"}},
		"A8: our volume writable":       {[]podtest.Edit{main(podtest.Mount(wire.VolumeJob, wire.DefaultJobMountPath, false))}, []string{"mount_conflict spec.containers[0].volumeMounts[0]"}},
		"A8: our volume recursively read-only": {
			[]podtest.Edit{main(podtest.MountRaw(`{"name":"nmp-workload-identity","mountPath":"` + wire.DefaultJobMountPath + `","readOnly":true,"recursiveReadOnly":"Enabled"}`))}, []string{"mount_conflict spec.containers[0].volumeMounts[0]"},
		},
		"our volume with a mount field of the future": {
			[]podtest.Edit{main(podtest.MountRaw(`{"name":"nmp-workload-identity","mountPath":"` + wire.DefaultJobMountPath + `","readOnly":true,"future":true}`))}, []string{"mount_conflict spec.containers[0].volumeMounts[0]"},
		},
		"our volume at a second place": {
			[]podtest.Edit{main(podtest.Mount(wire.VolumeJob, wire.DefaultJobMountPath, true), podtest.Mount(wire.VolumeJob, "/leak", true))}, []string{"mount_conflict spec.containers[0].volumeMounts[1]"},
		},
		"A7: a mount at our path":               {mounting(wire.DefaultJobMountPath), []string{"path_conflict spec.containers[0].volumeMounts[0].mountPath"}},
		"A7: a mount below our path":            {mounting(jobFile), []string{"path_conflict spec.containers[0].volumeMounts[0].mountPath"}},
		"A7: a mount at our parent":             {mounting("/var/run/secrets/nemo-platform"), []string{"path_conflict spec.containers[0].volumeMounts[0].mountPath"}},
		"A7: a mount at our path by /run":       {mounting("/run/secrets/nemo-platform/workload/"), []string{"path_conflict spec.containers[0].volumeMounts[0].mountPath"}},
		"A7: a mount at our path by dots":       {mounting("/var//run/secrets/x/../nemo-platform/./workload"), []string{"path_conflict spec.containers[0].volumeMounts[0].mountPath"}},
		"A7: a mount at our path without slash": {mounting("var/run/secrets/nemo-platform/workload"), []string{"path_conflict spec.containers[0].volumeMounts[0].mountPath"}},
		"A7: dots behind the link /var/run":     {mounting("/var/run/../var/run/secrets/nemo-platform/workload"), []string{"path_conflict spec.containers[0].volumeMounts[0].mountPath"}},
		"A7: a mount at the CA's path":          {mounting("/run/secrets/nemo-platform/ca"), []string{"path_conflict spec.containers[0].volumeMounts[0].mountPath"}},
		"A7: a block device at the token's file": {
			[]podtest.Edit{main(podtest.Field("volumeDevices", []any{podtest.Object{"name": "d", "devicePath": jobFile}}))}, []string{"path_conflict spec.containers[0].volumeDevices[0].devicePath"},
		},
		"A7: a mount at our path in an init container": {
			[]podtest.Edit{podtest.Volume(foreignVolume), podtest.In("initContainers", podtest.Container("i", podtest.Mount("mine", wire.DefaultJobMountPath, false)))}, []string{"path_conflict spec.initContainers[0].volumeMounts[0].mountPath"},
		},
		"A7: a mount at our path without identity": {
			append(mounting(wire.DefaultJobMountPath), podtest.Label(wire.LabelRole, "none")), []string{"path_conflict spec.containers[0].volumeMounts[0].mountPath"},
		},
		"A26: our volume in a helper without identity": {
			[]podtest.Edit{podtest.Label(wire.LabelRole, "none"), podtest.Volume(jobVolume)},
			[]string{"volume_conflict spec.volumes[0]", "audience_forbidden spec.volumes[0].projected.sources[0].serviceAccountToken.audience"},
		},
		"our volume in a deployment's pod": {
			[]podtest.Edit{podtest.Owner("apps/v1", "ReplicaSet"), podtest.Volume(jobVolume)},
			[]string{"volume_conflict spec.volumes[0]", "audience_forbidden spec.volumes[0].projected.sources[0].serviceAccountToken.audience"},
		},
		"A24: a mirror annotation written by a user": {
			[]podtest.Edit{podtest.Annotation(wire.AnnotationMirror, "x"), main(podtest.Env("NMP_PRINCIPAL", "x"))}, env("containers", "name"),
		},
		"an unknown container": {[]podtest.Edit{podtest.Annotation(wire.AnnotationContainers, "main,gone")}, []string{"metadata_invalid metadata.annotations[lanyard.dev/containers]"}},
		"an ephemeral container named": {
			[]podtest.Edit{podtest.In("ephemeralContainers", podtest.Container("e")), podtest.Annotation(wire.AnnotationContainers, "e")}, []string{"metadata_invalid metadata.annotations[lanyard.dev/containers]"},
		},
		"no container":  {[]podtest.Edit{podtest.Annotation(wire.AnnotationContainers, " ")}, []string{"metadata_invalid metadata.annotations[lanyard.dev/containers]"}},
		"an empty name": {[]podtest.Edit{podtest.Annotation(wire.AnnotationContainers, "main,")}, []string{"metadata_invalid metadata.annotations[lanyard.dev/containers]"}},
		"an unknown container in the first list": {
			[]podtest.Edit{podtest.Annotation(wire.AnnotationJobContainers, "gone")}, []string{"metadata_invalid metadata.annotations[lanyard.dev/job-containers]"},
		},
		"two lists that differ": {
			[]podtest.Edit{main(), podtest.Containers(podtest.Container("b")), podtest.Annotation(wire.AnnotationJobContainers, "main"), podtest.Annotation(wire.AnnotationContainers, "b")},
			[]string{"metadata_invalid metadata.annotations[lanyard.dev/containers]"},
		},
		"a lifetime with a fraction":   {[]podtest.Edit{podtest.Annotation(wire.AnnotationExpiration, "600.5")}, []string{"metadata_invalid metadata.annotations[lanyard.dev/token-expiration-seconds]"}},
		"a lifetime with a sign":       {[]podtest.Edit{podtest.Annotation(wire.AnnotationExpiration, "+600")}, []string{"metadata_invalid metadata.annotations[lanyard.dev/token-expiration-seconds]"}},
		"an empty lifetime":            {[]podtest.Edit{podtest.Annotation(wire.AnnotationExpiration, "")}, []string{"metadata_invalid metadata.annotations[lanyard.dev/token-expiration-seconds]"}},
		"a lifetime in other digits":   {[]podtest.Edit{podtest.Annotation(wire.AnnotationExpiration, "٦٠٠")}, []string{"metadata_invalid metadata.annotations[lanyard.dev/token-expiration-seconds]"}},
		"a role that does not exist":   {[]podtest.Edit{podtest.Label(wire.LabelRole, "None")}, []string{"metadata_invalid metadata.labels[lanyard.dev/role]"}},
		"an injected label of nothing": {[]podtest.Edit{podtest.Label(wire.LabelInjected, "yes")}, []string{"metadata_invalid metadata.labels[lanyard.dev/injected]"}},
		"an injected label on a helper": {
			[]podtest.Edit{podtest.Label(wire.LabelInjected, "job"), podtest.Label(wire.LabelRole, "none")}, []string{"metadata_invalid metadata.labels[lanyard.dev/injected]"},
		},
		"Windows by spec.os":           {[]podtest.Edit{podtest.Spec("os", podtest.Object{"name": "windows"})}, []string{"windows_unsupported spec.os"}},
		"Windows by the node selector": {[]podtest.Edit{podtest.Spec("nodeSelector", podtest.Object{"kubernetes.io/os": "windows"})}, []string{"windows_unsupported spec.os"}},
		"Windows by the old selector":  {[]podtest.Edit{podtest.Spec("nodeSelector", podtest.Object{"beta.kubernetes.io/os": "windows"})}, []string{"windows_unsupported spec.os"}},
		"Windows by the pod's options": {[]podtest.Edit{podtest.Spec("securityContext", podtest.Object{"windowsOptions": podtest.Object{"hostProcess": true}})}, []string{"windows_unsupported spec.os"}},
		"Windows by a container's options": {
			[]podtest.Edit{main(podtest.Field("securityContext", podtest.Object{"windowsOptions": podtest.Object{}}))}, []string{"windows_unsupported spec.os"},
		},
		"Windows by the node affinity": {
			[]podtest.Edit{podtest.Spec("affinity", podtest.Raw(`{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"gpu","operator":"Exists"},{"key":"kubernetes.io/os","operator":"In","values":["windows"]}]}]}}}`))},
			[]string{"windows_unsupported spec.os"},
		},
		"A14: case does not count on Windows": {
			[]podtest.Edit{podtest.Label(wire.LabelRole, "none"), podtest.Spec("os", podtest.Object{"name": "windows"}), main(podtest.Env("nmp_principal", "x"))}, []string{"look_alike spec.containers[0].env[0].name"},
		},
		"many faults at once, by path": {
			[]podtest.Edit{podtest.Volume(foreignVolume), main(podtest.Env("NMP_PRINCIPAL", "x"), podtest.EnvFrom("NEMO_"), podtest.Mount("mine", jobFile, true)), podtest.Annotation(wire.AnnotationExpiration, "x")},
			[]string{
				"metadata_invalid metadata.annotations[lanyard.dev/token-expiration-seconds]", "env_from_prefix spec.containers[0].envFrom[0].prefix",
				"reserved_env spec.containers[0].env[0].name", "path_conflict spec.containers[0].volumeMounts[0].mountPath",
			},
		},
	}
}

// TestRefusals plants each fault twice: in the pod as it comes, which the mutating entry refuses, and in a pod that has
// been injected already, which the validating entry refuses.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, tc := range refusals() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := jobRequest(podtest.Pod(tc.pod...).JSON())
			d, err := mutate.Pod(req, testRules())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, found(d)); diff != "" || d.Outcome != mutate.Denied || d.Patch != nil {
				t.Errorf("/mutate/job: outcome %q, violations differ (-want +got):\n%s", d.Outcome, diff)
			}
			d, err = mutate.Verify(req, testRules())
			if err != nil {
				t.Fatal(err)
			}
			if got := found(d); d.Outcome != mutate.Denied || !contains(got, tc.want) {
				t.Errorf("/validate/job: outcome %q, violations %v, want among them %v", d.Outcome, got, tc.want)
			}
		})
	}
}

func contains(got, want []string) bool {
	have := map[string]bool{}
	for _, g := range got {
		have[g] = true
	}
	for _, w := range want {
		if !have[w] {
			return false
		}
	}
	return true
}
