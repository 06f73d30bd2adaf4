//go:build unix

package redteam

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// The layers that refuse, as refused takes them.
const (
	byAudience = "policy lanyard-protected-audiences"
	byNames    = "policy lanyard-reserved-names"
	byStamp    = "policy lanyard-creator-stamp"
	byRequired = "policy lanyard-creator-required"
	byInjected = "policy lanyard-injected-label"
	byLabels   = "policy lanyard-namespace-labels"
	byTokens   = "policy lanyard-token-requests"
	byBinding  = "policy lanyard-binding-metadata"
	byOwner    = "policy lanyard-job-pods"
	byImage    = "policy lanyard-managed-pods"
	byAccess   = "policy lanyard-pod-access"
	byJob      = "webhook job.mutate.lanyard.dev"
	byJobCheck = "webhook job.validate.lanyard.dev"
	byPub      = "webhook publisher.mutate.lanyard.dev"
	byPubCheck = "webhook publisher.validate.lanyard.dev"
	byListed   = "webhook listed.mutate.lanyard.dev"
	byTemplate = "webhook template.validate.lanyard.dev"
)

// projections try a protected audience wherever a pod may be made; shape makes the volume of an audience.
func projections(t *testing.T, shape func(audience string) podtest.Edit) {
	t.Helper()
	mallory := redteam(t).as(attacker)
	for name, tc := range map[string]struct {
		namespace, audience string
		edits               []podtest.Edit
		layer, reason       string
	}{
		"the jobs' audience where nothing is managed":            {namespace: plain, audience: jobAudience, layer: byAudience, reason: "only pods of managed jobs may have"},
		"the publishers' audience where nobody may publish":      {namespace: plain, audience: publisherAudience, layer: byAudience, reason: "neither is service account red-plain/default a listed publisher"},
		"the same with the role label":                           {namespace: plain, audience: publisherAudience, edits: []podtest.Edit{asPublisher()}, layer: byAudience, reason: "nor does the pod have the publisher role here"},
		"a publisher's audience without the role label":          {namespace: publishing, audience: publisherAudience, layer: byAudience, reason: "neither is"},
		"a publisher's own audience in another volume":           {namespace: publishing, audience: publisherAudience, edits: []podtest.Edit{asPublisher()}, layer: byPub, reason: "audience_forbidden"},
		"a publisher asks for the jobs' audience":                {namespace: publishing, audience: jobAudience, edits: []podtest.Edit{asPublisher()}, layer: byPub, reason: "audience_forbidden"},
		"a listed publisher's own audience in another volume":    {namespace: listed, audience: publisherAudience, edits: []podtest.Edit{account("monitor")}, layer: byListed, reason: "audience_forbidden"},
		"another account of the listed publisher's namespace":    {namespace: listed, audience: publisherAudience, layer: byAudience, reason: "service account red-listed/default"},
		"a job's own audience in another volume":                 {namespace: managed, audience: jobAudience, layer: byJob, reason: "audience_forbidden"},
		"a job asks for the publishers' audience":                {namespace: managed, audience: publisherAudience, layer: byJob, reason: "audience_forbidden"},
		"a helper without identity asks for the jobs' audience":  {namespace: managed, audience: jobAudience, edits: []podtest.Edit{podtest.Label(roleKey, "none")}, layer: byJob, reason: "audience_forbidden"},
		"a Deployment's pod asks for the jobs' audience":         {namespace: managed, audience: jobAudience, edits: []podtest.Edit{podtest.Owner("apps/v1", "ReplicaSet")}, layer: byJob, reason: "audience_forbidden"},
		"a Job of another group's pod asks for the jobs'":        {namespace: managed, audience: jobAudience, edits: []podtest.Edit{podtest.Owner("batch.example.com/v1", "Job")}, layer: byJob, reason: "audience_forbidden"},
		"a job that publishes takes the audience in own volumes": {namespace: both, audience: publisherAudience, edits: []podtest.Edit{asPublisher()}, layer: byJob, reason: "audience_forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mallory.pod(t, tc.namespace, append(tc.edits, shape(tc.audience))...).refused(t, tc.layer, tc.reason)
		})
	}
}

func TestA01ProjectAnAudienceInAnotherVolume(t *testing.T) {
	t.Parallel()
	documented(t, "refused", "`lanyard-protected-audiences`", "webhook")
	projections(t, func(audience string) podtest.Edit { return projecting("own", tokenSource(audience)) })
}

func TestA02ProjectAnAudienceInASecondSource(t *testing.T) {
	t.Parallel()
	documented(t, "refused", "every source")
	projections(t, func(audience string) podtest.Edit {
		return projecting("own", `{"configMap":{"name":"x"}}`, `{"serviceAccountToken":{"audience":"vault","path":"a"}}`,
			fmt.Sprintf(`{"serviceAccountToken":{"audience":%q,"path":"b"}}`, audience))
	})
}

// TestA03TokensThroughACSIDriver shows that admission does not look at drivers, and that whoever edits a namespace cannot
// make one. What the driver's token is worth is for the receiver to say: it is bound to pod and account like any other.
func TestA03TokensThroughACSIDriver(t *testing.T) {
	t.Parallel()
	documented(t, "out of reach", "RBAC", "receiver")
	w := redteam(t)
	driver := object{
		"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": object{"name": "tokens.red.example.com"},
		"spec": object{"tokenRequests": []any{object{"audience": jobAudience}}, "volumeLifecycleModes": []any{"Ephemeral"}},
	}
	const drivers = "/apis/storage.k8s.io/v1/csidrivers"
	w.as(attacker).do(t.Context(), http.MethodPost, drivers, driver).refused(t, "cannot create resource", "csidrivers")
	w.root().do(t.Context(), http.MethodPost, drivers, driver).accepted(t)
	t.Cleanup(func() { w.root().do(t.Context(), http.MethodDelete, drivers+"/tokens.red.example.com", nil) })
	inline := podtest.Volume(`{"name":"own","csi":{"driver":"tokens.red.example.com"}}`)
	w.as(attacker).pod(t, plain, inline).accepted(t)
	w.as(attacker).pod(t, plain, podtest.Volume(`{"name":"nmp-workload-identity","csi":{"driver":"tokens.red.example.com"}}`)).accepted(t)
	w.as(attacker).pod(t, managed, podtest.Volume(`{"name":"nmp-workload-identity","csi":{"driver":"tokens.red.example.com"}}`)).
		refused(t, byJob, "volume_conflict")
}

func TestA04AnotherKindOfVolumeUnderOurName(t *testing.T) {
	t.Parallel()
	documented(t, "refused, `volume_conflict`", "webhook")
	mallory := redteam(t).as(attacker)
	for kind, source := range map[string]string{
		"hostPath":  `"hostPath":{"path":"/"}`,
		"secret":    `"secret":{"secretName":"x"}`,
		"emptyDir":  `"emptyDir":{}`,
		"configMap": `"configMap":{"name":"x"}`,
		"csi":       `"csi":{"driver":"x.example.com"}`,
		"image":     `"image":{"reference":"registry.example/x:1"}`,
		"ephemeral": `"ephemeral":{"volumeClaimTemplate":{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1"}}}}}`,
		"downward":  `"downwardAPI":{"items":[{"path":"token","fieldRef":{"fieldPath":"metadata.name"}}]}`,
		"projected": `"projected":{"sources":[{"secret":{"name":"x"}}]}`,
		"nothing":   `"projected":{}`,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			volume := func(name string) podtest.Edit { return podtest.Volume(`{"name":"` + name + `",` + source + `}`) }
			mallory.pod(t, managed, volume(jobVolume)).refused(t, byJob, "volume_conflict", "spec.volumes[0]")
			mallory.pod(t, managed, volume("nmp-platform-ca")).refused(t, byJob, "volume_conflict", "spec.volumes[0]")
			mallory.pod(t, publishing, asPublisher(), volume(publisherVolume)).refused(t, byPub, "volume_conflict", "spec.volumes[0]")
			mallory.pod(t, listed, account("monitor"), volume(publisherVolume)).refused(t, byListed, "volume_conflict", "spec.volumes[0]")
			mallory.create(t, managed, "batch/v1/jobs", job(volume(jobVolume))).refused(t, byJob, "volume_conflict", "spec.template.spec.volumes[0]")
		})
	}
}

func TestA05OurVolumeWithADifference(t *testing.T) {
	t.Parallel()
	documented(t, "refused, `volume_conflict`", "exact equality")
	mallory := redteam(t).as(attacker)
	token := func(fields string) string {
		return `{"serviceAccountToken":{"audience":"nemo-platform",` + fields + `}}`
	}
	volume := func(more string, sources ...string) podtest.Edit {
		text := ""
		for i, s := range sources {
			if i > 0 {
				text += ","
			}
			text += s
		}
		return podtest.Volume(`{"name":"nmp-workload-identity","projected":{` + more + `"sources":[` + text + `]}}`)
	}
	exact := token(`"expirationSeconds":600,"path":"token"`)
	for name, edit := range map[string]podtest.Edit{
		"another mode":        volume(`"defaultMode":256,`, exact),
		"a mode for all":      volume(`"defaultMode":438,`, exact),
		"an extra source":     volume("", exact, `{"secret":{"name":"x"}}`),
		"the source twice":    volume("", exact, token(`"expirationSeconds":600,"path":"token2"`)),
		"another path":        volume("", token(`"expirationSeconds":600,"path":"tok"`)),
		"a longer life":       volume("", token(`"expirationSeconds":601,"path":"token"`)),
		"the API's own life":  volume("", token(`"path":"token"`)),
		"another audience":    volume("", `{"serviceAccountToken":{"audience":"vault","expirationSeconds":600,"path":"token"}}`),
		"no audience":         volume("", `{"serviceAccountToken":{"expirationSeconds":600,"path":"token"}}`),
		"no source":           volume(""),
		"a secret before it":  volume("", `{"secret":{"name":"x","items":[{"key":"k","path":"token"}]}}`, token(`"expirationSeconds":600,"path":"t"`)),
		"both tokens in it":   volume("", exact, `{"serviceAccountToken":{"audience":"platform-connector.nvsentinel.nvidia.com","path":"p"}}`),
		"a downward source":   volume("", exact, `{"downwardAPI":{"items":[{"path":"x","fieldRef":{"fieldPath":"metadata.name"}}]}}`),
		"a trust bundle":      volume("", exact, `{"clusterTrustBundle":{"name":"x","path":"y"}}`),
		"a pod's certificate": volume("", exact, `{"podCertificate":{"signerName":"x.example.com/y","keyType":"ED25519","credentialBundlePath":"z"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mallory.pod(t, managed, edit).refused(t, byJob, "volume_conflict", "spec.volumes[0]")
		})
	}
	for name, edit := range map[string]podtest.Edit{
		"exactly ours":                     ownVolume(),
		"ours with the API server's mode":  volume(`"defaultMode":420,`, exact),
		"ours with what means nothing set": volume("", `{"serviceAccountToken":{"audience":"nemo-platform","expirationSeconds":600,"path":"token"},"secret":null}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored := mallory.pod(t, managed, edit).accepted(t)
			if got := holders(stored, jobVolume); !slices.Equal(got, []string{"main"}) {
				t.Errorf("the containers with the token are %q", got)
			}
		})
	}
}

func TestA06OurVolumeInAnotherContainer(t *testing.T) {
	t.Parallel()
	documented(t, "refused, `mount_conflict`", "list of containers")
	mallory := redteam(t).as(attacker)
	thief := func(name string, more ...podtest.Edit) object {
		return podtest.Container(name, append(more, podtest.Mount(jobVolume, jobPath, true))...)
	}
	for name, edits := range map[string][]podtest.Edit{
		"an init container":                   {mainWith(), podtest.In("initContainers", thief("setup"))},
		"a mesh's sidecar":                    {podtest.Containers(podtest.Container("main"), thief("istio-proxy"))},
		"a mesh's native sidecar":             {mainWith(), podtest.In("initContainers", thief("istio-proxy", podtest.Sidecar()))},
		"a container that is not on the list": {podtest.Annotation("lanyard.dev/containers", "main"), podtest.Containers(podtest.Container("main"), thief("other"))},
		"a container that the record lacks":   {podtest.Annotation("lanyard.dev/job-containers", "main"), podtest.Containers(podtest.Container("main"), thief("other"))},
		"a helper without identity":           {podtest.Label(roleKey, "none"), podtest.Containers(thief("main"))},
		"a Deployment's pod":                  {podtest.Owner("apps/v1", "ReplicaSet"), podtest.Containers(thief("main"))},
		"elsewhere in the job's container":    {mainWith(podtest.Mount(jobVolume, "/elsewhere", true))},
		"twice in the job's container":        {mainWith(podtest.Mount(jobVolume, jobPath, true), podtest.Mount(jobVolume, "/elsewhere", true))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mallory.pod(t, managed, append(edits, ownVolume())...).refused(t, byJob, "mount_conflict", "volumeMounts[")
		})
	}
	t.Run("a debug container", func(t *testing.T) {
		t.Parallel()
		w := redteam(t)
		name := mallory.pod(t, managed).name(t)
		w.root().debug(t, managed, name, thief("debugger")).refused(t, byJobCheck, "mount_conflict", "a debug container may not mount")
		pub := mallory.pod(t, publishing, asPublisher()).name(t)
		steal := podtest.Container("debugger", podtest.Mount(publisherVolume, "/x", true))
		w.root().debug(t, publishing, pub, steal).refused(t, byPubCheck, "mount_conflict", "a debug container may not mount")
		lst := mallory.pod(t, listed, account("monitor")).name(t)
		w.root().debug(t, listed, lst, steal).refused(t, "webhook listed.validate.lanyard.dev", "mount_conflict", "a debug container may not mount")
	})
}

func TestA07CoverTheToken(t *testing.T) {
	t.Parallel()
	documented(t, "refused, `path_conflict`; higher up is allowed", "cleaned paths")
	mallory := redteam(t).as(attacker)
	scratch := podtest.Volume(`{"name":"scratch","emptyDir":{}}`)
	for _, path := range []string{
		jobPath, jobPath + "/", jobPath + "/token", jobPath + "/..data", jobPath + "/a/b",
		"/var/run/secrets/nemo-platform", "/var/run/secrets/nemo-platform/", "/run/secrets/nemo-platform/workload",
		"/run/secrets/nemo-platform", "/var//run/secrets///nemo-platform/workload", "/var/./run/secrets/nemo-platform/./workload",
		"/x/../var/run/secrets/nemo-platform/workload", "/var/run/../run/secrets/nemo-platform/workload",
		"/var/run/../var/run/secrets/nemo-platform/workload", "/var/run/../../var/run/secrets/nemo-platform",
		"/run/../run/secrets/nemo-platform/workload/token", "var/run/secrets/nemo-platform/workload",
		"/../../var/run/secrets/nemo-platform/workload", "/var/run/secrets/nemo-platform/other/../workload",
		"/var/run/secrets/nemo-platform/ca", "/var/run/secrets/nemo-platform/ca/ca.crt",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			mallory.pod(t, managed, scratch, mainWith(podtest.Mount("scratch", path, false))).refused(t, byJob, "path_conflict", "volumeMounts[0].mountPath")
		})
	}
	for _, path := range []string{"/run", "/var/run", "/var/run/secrets", "/var", "/var/run/secrets/nemo-platform-x", "/var/run/secrets/nemo", "/var/run/secrets/nemo-platform/other"} {
		t.Run("allowed "+path, func(t *testing.T) {
			t.Parallel()
			stored := mallory.pod(t, managed, scratch, mainWith(podtest.Mount("scratch", path, false))).accepted(t)
			if got := holders(stored, jobVolume); !slices.Equal(got, []string{"main"}) {
				t.Errorf("the containers with the token are %q", got)
			}
		})
	}
	for _, path := range []string{publisherPath, "/run/secrets/nvsentinel/platform-connector/token", "/var/run/secrets/nvsentinel"} {
		t.Run("publisher "+path, func(t *testing.T) {
			t.Parallel()
			mount := mainWith(podtest.Mount("scratch", path, false))
			mallory.pod(t, publishing, asPublisher(), scratch, mount).refused(t, byPub, "path_conflict")
			mallory.pod(t, listed, account("monitor"), scratch, mount).refused(t, byListed, "path_conflict")
		})
	}
}

func TestA08OurVolumeMountedAnotherWay(t *testing.T) {
	t.Parallel()
	documented(t, "refused, `mount_conflict`", "webhook")
	mallory := redteam(t).as(attacker)
	for name, more := range map[string]string{
		"writable":                 `"readOnly":false`,
		"writable by default":      `"name":"nmp-workload-identity"`,
		"subPath":                  `"readOnly":true,"subPath":"token"`,
		"subPathExpr":              `"readOnly":true,"subPathExpr":"$(HOME)"`,
		"propagation to container": `"readOnly":true,"mountPropagation":"HostToContainer"`,
		"propagation to host":      `"readOnly":true,"mountPropagation":"Bidirectional"`,
		"recursively read-only":    `"readOnly":true,"recursiveReadOnly":"IfPossible"`,
		"a trailing slash":         `"readOnly":true,"mountPath":"/var/run/secrets/nemo-platform/workload/"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mount := object{"name": jobVolume, "mountPath": jobPath}
			for k, v := range value(decoded(t, "{"+more+"}")).(map[string]any) {
				mount[k] = v
			}
			edit := func(c object) { c["volumeMounts"] = []any{mount} }
			mallory.pod(t, managed, ownVolume(), mainWith(edit)).refused(t, byJob, "mount_conflict", "spec.containers[0].volumeMounts[0]")
		})
	}
}
