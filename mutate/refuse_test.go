package mutate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate"
	pt "github.com/lanyard-k8s/lanyard/test/podtest"
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

func main(edits ...pt.Edit) pt.Edit { return pt.Containers(pt.Container("main", edits...)) }

func mounting(path string) []pt.Edit {
	return []pt.Edit{pt.Volume(foreignVolume), main(pt.Mount("mine", path, false))}
}

// refusals are pods of a managed namespace that nobody gets past either entry, whatever else they carry.
func refusals() map[string]struct {
	pod  []pt.Edit
	want []string
} {
	env := func(list, field string) []string {
		return []string{"reserved_env spec." + list + "[0].env[0]." + field}
	}
	return map[string]struct {
		pod  []pt.Edit
		want []string
	}{
		"A9: a reserved name with a literal":     {[]pt.Edit{main(pt.Env("NMP_PRINCIPAL", "x"))}, env("containers", "name")},
		"A9: a reserved name that expands":       {[]pt.Edit{main(pt.Env("NMP_ACCESS_TOKEN", "$(X)"))}, env("containers", "name")},
		"A9: a reserved name from a secret":      {[]pt.Edit{main(pt.EnvRaw(`{"name":"NEMO_WORKLOAD_TOKEN","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}`))}, env("containers", "name")},
		"A9: a reserved name from a file":        {[]pt.Edit{main(pt.EnvRaw(`{"name":"NMP_WORKLOAD_X","valueFrom":{"fileKeyRef":{"path":"p","key":"k","volumeName":"v"}}}`))}, env("containers", "name")},
		"A9: a reserved name from the future":    {[]pt.Edit{main(pt.EnvRaw(`{"name":"NMP_WORKFLOW_X","valueFrom":{"future":{}}}`))}, env("containers", "name")},
		"A9: the token's own variable elsewhere": {[]pt.Edit{main(pt.Env(wire.EnvSubjectTokenFile, "/theirs"))}, env("containers", "name")},
		"the token's own variable emptied":       {[]pt.Edit{main(pt.Env(wire.EnvSubjectTokenFile, ""))}, env("containers", "name")},
		"A10: a reserved name in an init container": {
			[]pt.Edit{pt.In("initContainers", pt.Container("i", pt.Env("NMP_PRINCIPAL", "x")))}, env("initContainers", "name"),
		},
		"A10: a reserved name in a native sidecar": {
			[]pt.Edit{pt.In("initContainers", pt.Container("i", pt.Sidecar(), pt.Env("NMP_PRINCIPAL", "x")))}, env("initContainers", "name"),
		},
		"A10: a reserved name in an ephemeral container": {
			[]pt.Edit{pt.In("ephemeralContainers", pt.Container("e", pt.Env("NMP_PRINCIPAL", "x")))}, env("ephemeralContainers", "name"),
		},
		"our literal in an init container that gets no token": {
			[]pt.Edit{pt.In("initContainers", pt.Container("i", pt.Env(wire.EnvSubjectTokenFile, jobFile)))}, env("initContainers", "name"),
		},
		"our literal in a skipped container": {
			[]pt.Edit{main(), pt.Containers(pt.Container("istio-proxy", pt.Env(wire.EnvSubjectTokenFile, jobFile)))}, []string{"reserved_env spec.containers[1].env[0].name"},
		},
		"our literal in a pod without identity": {
			[]pt.Edit{pt.Label(wire.LabelRole, "none"), main(pt.Env(wire.EnvSubjectTokenFile, jobFile))}, env("containers", "name"),
		},
		"A11: ours, then theirs": {
			[]pt.Edit{main(pt.Env(wire.EnvSubjectTokenFile, jobFile), pt.Env(wire.EnvSubjectTokenFile, "/theirs"))}, []string{"reserved_env spec.containers[0].env[1].name"},
		},
		"ours twice": {
			[]pt.Edit{main(pt.Env(wire.EnvSubjectTokenFile, jobFile), pt.Env(wire.EnvSubjectTokenFile, jobFile))}, []string{"duplicate_env spec.containers[0].env[1].name"},
		},
		"A12: an envFrom prefix that completes a name": {[]pt.Edit{main(pt.EnvFrom("NMP_"))}, []string{"env_from_prefix spec.containers[0].envFrom[0].prefix"}},
		"A1: the audience under another volume's name": {
			[]pt.Edit{pt.Volume(`{"name":"mine","projected":{"sources":[{"serviceAccountToken":{"audience":"nemo-platform","path":"t"}}]}}`)},
			[]string{"audience_forbidden spec.volumes[0].projected.sources[0].serviceAccountToken.audience"},
		},
		"A2: the audience in a second source": {
			[]pt.Edit{pt.Volume(`{"name":"mine","projected":{"sources":[{"configMap":{"name":"x"}},{"serviceAccountToken":{"audience":"nemo-platform","path":"t"}}]}}`)},
			[]string{"audience_forbidden spec.volumes[0].projected.sources[1].serviceAccountToken.audience"},
		},
		"the publishers' audience in a job": {
			[]pt.Edit{pt.Volume(publisherVolume)}, []string{"audience_forbidden spec.volumes[0].projected.sources[0].serviceAccountToken.audience"},
		},
		"both audiences in our volume": {
			[]pt.Edit{pt.Volume(`{"name":"nmp-workload-identity","projected":{"sources":[{"serviceAccountToken":{"audience":"nemo-platform","expirationSeconds":600,"path":"token"}},{"serviceAccountToken":{"audience":"platform-connector.nvsentinel.nvidia.com","path":"p"}}]}}`)},
			[]string{"volume_conflict spec.volumes[0]", "audience_forbidden spec.volumes[0].projected.sources[1].serviceAccountToken.audience"},
		},
		"A4: our volume's name with a hostPath": {
			[]pt.Edit{pt.Volume(`{"name":"nmp-workload-identity","hostPath":{"path":"/"}}`)}, []string{"volume_conflict spec.volumes[0]"},
		},
		"A5: our volume with another mode": {
			[]pt.Edit{pt.Volume(`{"name":"nmp-workload-identity","projected":{"defaultMode":511,"sources":[{"serviceAccountToken":{"audience":"nemo-platform","expirationSeconds":600,"path":"token"}}]}}`)}, []string{"volume_conflict spec.volumes[0]"},
		},
		"A5: our volume with another path": {
			[]pt.Edit{pt.Volume(`{"name":"nmp-workload-identity","projected":{"sources":[{"serviceAccountToken":{"audience":"nemo-platform","expirationSeconds":600,"path":"x"}}]}}`)}, []string{"volume_conflict spec.volumes[0]"},
		},
		"A40: our volume with a longer life": {
			[]pt.Edit{pt.Volume(`{"name":"nmp-workload-identity","projected":{"sources":[{"serviceAccountToken":{"audience":"nemo-platform","expirationSeconds":4294967296,"path":"token"}}]}}`)}, []string{"volume_conflict spec.volumes[0]"},
		},
		"our volume with a field of the future": {
			[]pt.Edit{pt.Volume(`{"name":"nmp-workload-identity","future":1,"projected":{"sources":[{"serviceAccountToken":{"audience":"nemo-platform","expirationSeconds":600,"path":"token"}}]}}`)}, []string{"volume_conflict spec.volumes[0]"},
		},
		"the CA's volume from a secret": {[]pt.Edit{pt.Volume(`{"name":"nmp-platform-ca","secret":{"secretName":"x"}}`)}, []string{"volume_conflict spec.volumes[0]"}},
		"A6: our volume in an init container": {
			[]pt.Edit{pt.In("initContainers", pt.Container("i", pt.Mount(wire.VolumeJob, wire.DefaultJobMountPath, true)))}, []string{"mount_conflict spec.initContainers[0].volumeMounts[0]"},
		},
		"A6: our volume in a skipped sidecar": {
			[]pt.Edit{main(), pt.Containers(pt.Container("vault-agent", pt.Mount(wire.VolumeJob, wire.DefaultJobMountPath, true)))}, []string{"mount_conflict spec.containers[1].volumeMounts[0]"},
		},
		"A6: our volume in an ephemeral container": {
			[]pt.Edit{pt.In("ephemeralContainers", pt.Container("e", pt.Mount(wire.VolumeJob, wire.DefaultJobMountPath, true)))}, []string{"mount_conflict spec.ephemeralContainers[0].volumeMounts[0]"},
		},
		"A8: our volume by subPath":     {[]pt.Edit{main(pt.MountRaw(`{"name":"nmp-workload-identity","mountPath":"` + jobFile + `","readOnly":true,"subPath":"token"}`))}, []string{"mount_conflict spec.containers[0].volumeMounts[0]"}},
		"A8: our volume by subPathExpr": {[]pt.Edit{main(pt.MountRaw(`{"name":"nmp-workload-identity","mountPath":"` + wire.DefaultJobMountPath + `","readOnly":true,"subPathExpr":"$(A)"}`))}, []string{"mount_conflict spec.containers[0].volumeMounts[0]"}},
		"A8: our volume propagated":     {[]pt.Edit{main(pt.MountRaw(`{"name":"nmp-workload-identity","mountPath":"` + wire.DefaultJobMountPath + `","readOnly":true,"mountPropagation":"Bidirectional"}`))}, []string{"mount_conflict spec.containers[0].volumeMounts[0]"}},
		"A8: our volume writable":       {[]pt.Edit{main(pt.Mount(wire.VolumeJob, wire.DefaultJobMountPath, false))}, []string{"mount_conflict spec.containers[0].volumeMounts[0]"}},
		"A8: our volume recursively read-only": {
			[]pt.Edit{main(pt.MountRaw(`{"name":"nmp-workload-identity","mountPath":"` + wire.DefaultJobMountPath + `","readOnly":true,"recursiveReadOnly":"Enabled"}`))}, []string{"mount_conflict spec.containers[0].volumeMounts[0]"},
		},
		"our volume with a mount field of the future": {
			[]pt.Edit{main(pt.MountRaw(`{"name":"nmp-workload-identity","mountPath":"` + wire.DefaultJobMountPath + `","readOnly":true,"future":true}`))}, []string{"mount_conflict spec.containers[0].volumeMounts[0]"},
		},
		"our volume at a second place": {
			[]pt.Edit{main(pt.Mount(wire.VolumeJob, wire.DefaultJobMountPath, true), pt.Mount(wire.VolumeJob, "/leak", true))}, []string{"mount_conflict spec.containers[0].volumeMounts[1]"},
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
			[]pt.Edit{main(pt.Field("volumeDevices", []any{pt.Object{"name": "d", "devicePath": jobFile}}))}, []string{"path_conflict spec.containers[0].volumeDevices[0].devicePath"},
		},
		"A7: a mount at our path in an init container": {
			[]pt.Edit{pt.Volume(foreignVolume), pt.In("initContainers", pt.Container("i", pt.Mount("mine", wire.DefaultJobMountPath, false)))}, []string{"path_conflict spec.initContainers[0].volumeMounts[0].mountPath"},
		},
		"A7: a mount at our path without identity": {
			append(mounting(wire.DefaultJobMountPath), pt.Label(wire.LabelRole, "none")), []string{"path_conflict spec.containers[0].volumeMounts[0].mountPath"},
		},
		"A26: our volume in a helper without identity": {
			[]pt.Edit{pt.Label(wire.LabelRole, "none"), pt.Volume(jobVolume)},
			[]string{"volume_conflict spec.volumes[0]", "audience_forbidden spec.volumes[0].projected.sources[0].serviceAccountToken.audience"},
		},
		"our volume in a deployment's pod": {
			[]pt.Edit{pt.Owner("apps/v1", "ReplicaSet"), pt.Volume(jobVolume)},
			[]string{"volume_conflict spec.volumes[0]", "audience_forbidden spec.volumes[0].projected.sources[0].serviceAccountToken.audience"},
		},
		"A24: a mirror annotation written by a user": {
			[]pt.Edit{pt.Annotation(wire.AnnotationMirror, "x"), main(pt.Env("NMP_PRINCIPAL", "x"))}, env("containers", "name"),
		},
		"an unknown container": {[]pt.Edit{pt.Annotation(wire.AnnotationContainers, "main,gone")}, []string{"metadata_invalid metadata.annotations[lanyard.dev/containers]"}},
		"an ephemeral container named": {
			[]pt.Edit{pt.In("ephemeralContainers", pt.Container("e")), pt.Annotation(wire.AnnotationContainers, "e")}, []string{"metadata_invalid metadata.annotations[lanyard.dev/containers]"},
		},
		"no container":  {[]pt.Edit{pt.Annotation(wire.AnnotationContainers, " ")}, []string{"metadata_invalid metadata.annotations[lanyard.dev/containers]"}},
		"an empty name": {[]pt.Edit{pt.Annotation(wire.AnnotationContainers, "main,")}, []string{"metadata_invalid metadata.annotations[lanyard.dev/containers]"}},
		"an unknown container in the first list": {
			[]pt.Edit{pt.Annotation(wire.AnnotationJobContainers, "gone")}, []string{"metadata_invalid metadata.annotations[lanyard.dev/job-containers]"},
		},
		"two lists that differ": {
			[]pt.Edit{main(), pt.Containers(pt.Container("b")), pt.Annotation(wire.AnnotationJobContainers, "main"), pt.Annotation(wire.AnnotationContainers, "b")},
			[]string{"metadata_invalid metadata.annotations[lanyard.dev/containers]"},
		},
		"a lifetime with a fraction":   {[]pt.Edit{pt.Annotation(wire.AnnotationExpiration, "600.5")}, []string{"metadata_invalid metadata.annotations[lanyard.dev/token-expiration-seconds]"}},
		"a lifetime with a sign":       {[]pt.Edit{pt.Annotation(wire.AnnotationExpiration, "+600")}, []string{"metadata_invalid metadata.annotations[lanyard.dev/token-expiration-seconds]"}},
		"an empty lifetime":            {[]pt.Edit{pt.Annotation(wire.AnnotationExpiration, "")}, []string{"metadata_invalid metadata.annotations[lanyard.dev/token-expiration-seconds]"}},
		"a lifetime in other digits":   {[]pt.Edit{pt.Annotation(wire.AnnotationExpiration, "٦٠٠")}, []string{"metadata_invalid metadata.annotations[lanyard.dev/token-expiration-seconds]"}},
		"a role that does not exist":   {[]pt.Edit{pt.Label(wire.LabelRole, "None")}, []string{"metadata_invalid metadata.labels[lanyard.dev/role]"}},
		"an injected label of nothing": {[]pt.Edit{pt.Label(wire.LabelInjected, "yes")}, []string{"metadata_invalid metadata.labels[lanyard.dev/injected]"}},
		"an injected label on a helper": {
			[]pt.Edit{pt.Label(wire.LabelInjected, "job"), pt.Label(wire.LabelRole, "none")}, []string{"metadata_invalid metadata.labels[lanyard.dev/injected]"},
		},
		"Windows by spec.os":           {[]pt.Edit{pt.Spec("os", pt.Object{"name": "windows"})}, []string{"windows_unsupported spec.os"}},
		"Windows by the node selector": {[]pt.Edit{pt.Spec("nodeSelector", pt.Object{"kubernetes.io/os": "windows"})}, []string{"windows_unsupported spec.os"}},
		"Windows by the old selector":  {[]pt.Edit{pt.Spec("nodeSelector", pt.Object{"beta.kubernetes.io/os": "windows"})}, []string{"windows_unsupported spec.os"}},
		"Windows by the pod's options": {[]pt.Edit{pt.Spec("securityContext", pt.Object{"windowsOptions": pt.Object{"hostProcess": true}})}, []string{"windows_unsupported spec.os"}},
		"Windows by a container's options": {
			[]pt.Edit{main(pt.Field("securityContext", pt.Object{"windowsOptions": pt.Object{}}))}, []string{"windows_unsupported spec.os"},
		},
		"A14: case does not count on Windows": {
			[]pt.Edit{pt.Label(wire.LabelRole, "none"), pt.Spec("os", pt.Object{"name": "windows"}), main(pt.Env("nmp_principal", "x"))}, []string{"look_alike spec.containers[0].env[0].name"},
		},
		"many faults at once, by path": {
			[]pt.Edit{pt.Volume(foreignVolume), main(pt.Env("NMP_PRINCIPAL", "x"), pt.EnvFrom("NEMO_"), pt.Mount("mine", jobFile, true)), pt.Annotation(wire.AnnotationExpiration, "x")},
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
			req := jobRequest(pt.Pod(tc.pod...).JSON())
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
