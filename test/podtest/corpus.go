package podtest

import (
	"encoding/json"
	"fmt"
)

// Small is a pod of about 3 KB: one container with a few variables.
func Small() []byte { return sized(1, 0, 6) }

// Medium is a pod of about 12.6 KB: three app containers and two init containers (one of them a native sidecar) with 15
// variables each. The performance bars are set on it.
func Medium() []byte { return sized(3, 2, 15) }

// Large is a pod of about 250 KB: 40 app containers and 4 init containers with 40 variables each.
func Large() []byte { return sized(40, 4, 40) }

// sized builds a job's pod as the API server sends it: defaults filled in, the service account's volume added, and
// managedFields of about the size that server-side apply leaves.
func sized(apps, inits, variables int) []byte {
	edits := []Edit{
		Owner("batch/v1", "Job"),
		Label("batch.kubernetes.io/job-name", "job-1"),
		Label("app", "trainer"),
		Annotation("example.com/revision", "7"),
		Volume(`{"name":"kube-api-access-x7z2k","projected":{"defaultMode":420,"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"items":[{"key":"ca.crt","path":"ca.crt"}],"name":"kube-root-ca.crt"}},{"downwardAPI":{"items":[{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"},"path":"namespace"}]}}]}}`),
		Volume(`{"emptyDir":{},"name":"scratch"}`),
		Spec("restartPolicy", "Never"), Spec("terminationGracePeriodSeconds", 30), Spec("dnsPolicy", "ClusterFirst"),
		Spec("serviceAccount", "runner"), Spec("schedulerName", "default-scheduler"), Spec("enableServiceLinks", true),
		Spec("preemptionPolicy", "PreemptLowerPriority"), Spec("priority", 0), Spec("securityContext", Object{}),
		Spec("tolerations", []any{
			Raw(`{"effect":"NoExecute","key":"node.kubernetes.io/not-ready","operator":"Exists","tolerationSeconds":300}`),
			Raw(`{"effect":"NoExecute","key":"node.kubernetes.io/unreachable","operator":"Exists","tolerationSeconds":300}`),
		}),
	}
	for i := range inits {
		c := full(fmt.Sprintf("setup-%d", i), variables)
		if i%2 == 1 {
			c["restartPolicy"] = "Always"
		}
		edits = append(edits, In("initContainers", c))
	}
	for i := range apps {
		c := full(fmt.Sprintf("step-%d", i), variables)
		if i == 0 {
			c["envFrom"] = []any{Object{"configMapRef": Object{"name": "settings"}}}
		}
		edits = append(edits, Containers(c))
	}
	p := Pod(edits...)
	p.At("metadata")["managedFields"] = managedFields(p.At("spec"), variables)
	p["status"] = Object{"phase": "Pending", "qosClass": "Burstable"}
	return p.JSON()
}

// full is a container with defaults, mounts, probes and variables of several kinds.
func full(name string, variables int) Object {
	c := Container(name,
		Field("imagePullPolicy", "IfNotPresent"),
		Field("resources", Raw(`{"limits":{"cpu":"4","memory":"8Gi"},"requests":{"cpu":"1","memory":"2Gi"}}`)),
		Field("terminationMessagePath", "/dev/termination-log"), Field("terminationMessagePolicy", "File"),
		Mount("scratch", "/scratch", false),
		Mount("kube-api-access-x7z2k", "/var/run/secrets/kubernetes.io/serviceaccount", true),
	)
	for i := range variables {
		variable := fmt.Sprintf("TRAINER_SETTING_%02d", i)
		switch i % 5 {
		case 3:
			EnvRaw(fmt.Sprintf(`{"name":%q,"valueFrom":{"configMapKeyRef":{"key":"setting-%02d","name":"settings"}}}`, variable, i))(c)
		case 4:
			EnvRaw(fmt.Sprintf(`{"name":%q,"valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}}`, variable))(c)
		default:
			Env(variable, fmt.Sprintf("value-of-setting-%02d-for-%s", i, name))(c)
		}
	}
	return c
}

// managedFields lists the fields of a spec, of the variables a half, the way server-side apply records them.
func managedFields(spec Object, variables int) []any {
	fields := Object{}
	for _, list := range []string{"containers", "initContainers"} {
		cs, _ := spec[list].([]any)
		for _, c := range cs {
			c := c.(Object)
			of := Object{".": Object{}, "f:image": Object{}, "f:imagePullPolicy": Object{}, "f:resources": Object{}}
			env := Object{".": Object{}}
			for i, e := range c["env"].([]any) {
				if i < variables/2 {
					env[fmt.Sprintf(`k:{"name":%q}`, variableName(e))] = Object{".": Object{}, "f:name": Object{}, "f:value": Object{}}
				}
			}
			of["f:env"] = env
			fields.At("f:" + list)[fmt.Sprintf(`k:{"name":%q}`, c["name"])] = of
		}
	}
	return []any{Object{
		"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
		"time": "2026-01-02T03:04:05Z", "fieldsType": "FieldsV1", "fieldsV1": Object{"f:spec": fields},
	}}
}

// variableName reads a variable's name, whichever way it was added.
func variableName(e any) string {
	if o, ok := e.(Object); ok {
		return o["name"].(string)
	}
	var named struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(e.(json.RawMessage), &named); err != nil {
		panic(err)
	}
	return named.Name
}
