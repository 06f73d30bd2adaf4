package policy

import "testing"

func TestManagedPods(t *testing.T) {
	t.Parallel()
	v := named(t, defaults(), ManagedPods)
	pod := func(metadata, containers, init string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {name: p, " + metadata + "}, spec: {containers: [" + containers + "], initContainers: [" + init + "]}}"
	}
	const one, two = "{name: a, image: i}", "{name: b, image: j}"
	const image, debug = "the images of a pod in a managed namespace never change", "added by platform admins only"
	for name, tc := range map[string]struct {
		q    question
		want string
	}{
		"labels":                                  {q: question{object: pod("labels: {a: b}", one, two), old: pod("", one, two)}},
		"no init containers at all":               {q: question{object: podOf("labels: {a: b}"), old: podOf("")}},
		"another image":                           {q: question{object: pod("", "{name: a, image: evil}", ""), old: pod("", one, "")}, want: image},
		"another image by an admin":               {q: question{object: pod("", "{name: a, image: evil}", ""), old: pod("", one, ""), admin: true}, want: image},
		"another image of a later container":      {q: question{object: pod("", one+", {name: b, image: evil}", ""), old: pod("", one+", "+two, "")}, want: image},
		"another image of an init container":      {q: question{object: pod("", one, "{name: b, image: evil}"), old: pod("", one, two)}, want: image},
		"images change places":                    {q: question{object: pod("", "{name: a, image: j}, {name: b, image: i}", ""), old: pod("", one+", "+two, "")}, want: image},
		"no image before":                         {q: question{object: pod("", one, ""), old: pod("", "{name: a}", "")}, want: image},
		"a debug container":                       {q: question{resource: "pods/ephemeralcontainers", object: pod("", one, ""), old: pod("", one, "")}, want: debug},
		"a debug container by an admin":           {q: question{resource: "pods/ephemeralcontainers", object: pod("", one, ""), old: pod("", one, ""), admin: true}},
		"a debug container by the job controller": {q: question{resource: "pods/ephemeralcontainers", object: pod("", one, ""), old: pod("", one, ""), user: jobController}, want: debug},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, ask(t, v, tc.q), tc.want)
		})
	}
}

func TestPodAccess(t *testing.T) {
	t.Parallel()
	v := named(t, defaults(), PodAccess)
	for resource, options := range map[string]string{
		"pods/exec": "PodExecOptions", "pods/attach": "PodAttachOptions", "pods/portforward": "PodPortForwardOptions",
		"pods/proxy": "PodProxyOptions", "services/proxy": "ServiceProxyOptions",
	} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			q := question{connect: true, resource: resource, object: "{apiVersion: v1, kind: " + options + "}"}
			expect(t, ask(t, v, q), "is for platform admins")
			q.admin = true
			expect(t, ask(t, v, q), "")
		})
	}
}
