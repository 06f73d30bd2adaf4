//go:build unix

package chart

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/test/cluster"
)

const jobControllerName = "system:serviceaccount:kube-system:job-controller"

// ownedText is a pod in the managed namespace, stamped by its creator, with a controller reference and labels.
func ownedText(name, creator, owner, labels string) string {
	return "{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", namespace: managed, annotations: {lanyard.dev/created-by: '" + creator + "'}, labels: {" + labels +
		"}, ownerReferences: [" + owner + "]}, spec: {containers: [{name: main, image: i}]}}"
}

const ofTrain = "{apiVersion: batch/v1, kind: Job, name: train, uid: u, controller: true}"

// TestWhoseWorkOnARealAPIServer tries P1, P2, P3 and P6 as people and as the controllers themselves.
func TestWhoseWorkOnARealAPIServer(t *testing.T) {
	t.Parallel()
	cp := live(t)
	users := map[string]string{"alice": "alice", "bob": "bob", "job": jobControllerName, "collector": "system:serviceaccount:kube-system:generic-garbage-collector"}
	alice, root := client(t, cp, "alice"), client(t, cp, cluster.Admin, "system:masters")
	mustCreate(t, alice, strings.Replace(podText("managed", stampedByAlice, "", "automountServiceAccountToken: false,"), "name: p,", "name: bare,", 1))
	// The owner does not exist: the garbage collector would delete the pod, were it not held.
	mustCreate(t, client(t, cp, jobControllerName), strings.Replace(ownedText("owned", jobControllerName, ofTrain, "job-name: train"), "name: owned,", "name: owned, finalizers: [example.com/hold],", 1))
	mustCreate(t, alice, jobText("hers", stampedByAlice, ""))
	byHand := strings.NewReplacer("suspend: true,", "suspend: true, manualSelector: true, selector: {matchLabels: {a: b}},", "template: {", "template: {metadata: {labels: {a: b}}, ")
	const image, meta = `{"spec":{"containers":[{"name":"main","image":"evil"}]}}`, `{"metadata":{`
	for name, tc := range map[string]struct {
		as     string
		object string // created, or
		gvr    schema.GroupVersionResource
		name   string
		body   string // patched into it
		sub    []string
		want   string
	}{
		"a pod of somebody's Job":                    {as: "alice", object: ownedText("x", "alice", ofTrain, ""), want: "Job train as its controller"},
		"the same by an admin":                       {as: "root", object: ownedText("x", cluster.Admin, ofTrain, "lanyard.dev/role: none"), want: "Job train as its controller"},
		"the same by the Job controller":             {as: "job", object: ownedText("x", jobControllerName, ofTrain, "controller-uid: u, job-name: train")},
		"with another's UID":                         {as: "job", object: ownedText("x", jobControllerName, ofTrain, "controller-uid: v"), want: "name another job"},
		"a pod with an adoption label":               {as: "alice", object: ownedText("x", "alice", "", "controller-uid: u"), want: "controller-uid, by which"},
		"a pod is given to a Job":                    {as: "alice", gvr: pods, name: "bare", body: meta + `"ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"train","uid":"u","controller":true}]}}`, want: "and never afterwards"},
		"a pod is given to a Job through status":     {as: "root", gvr: pods, name: "bare", sub: []string{"status"}, body: meta + `"labels":{"job-name":"train"}}}`, want: "never added or changed"},
		"a pod is given to a ReplicaSet":             {as: "alice", gvr: pods, name: "bare", body: meta + `"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"u","controller":true}]}}`},
		"a pod is taken from its Job":                {as: "alice", gvr: pods, name: "owned", body: meta + `"ownerReferences":null}}`, want: "only taken off by"},
		"a pod is taken from its Job by the Job's":   {as: "job", gvr: pods, name: "owned", body: meta + `"ownerReferences":null,"labels":null}}`},
		"a pod is taken from its Job as garbage":     {as: "collector", gvr: pods, name: "owned", body: meta + `"ownerReferences":null}}`},
		"an adoption label is removed":               {as: "alice", gvr: pods, name: "owned", body: meta + `"labels":{"job-name":null}}}`, want: "only taken off by"},
		"a finalizer is removed":                     {as: "alice", gvr: pods, name: "owned", body: meta + `"finalizers":null}}`},
		"another image":                              {as: "alice", gvr: pods, name: "bare", body: image, want: "images of a pod"},
		"another image by an admin":                  {as: "root", gvr: pods, name: "bare", body: image, want: "images of a pod"},
		"a label of another's pod":                   {as: "bob", gvr: pods, name: "bare", body: meta + `"labels":{"a":"b"}}}`},
		"another's suspended Job changes its nodes":  {as: "bob", gvr: jobs, name: "hers", body: `{"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}`, want: "alice, who alone may change"},
		"one's own suspended Job changes its nodes":  {as: "alice", gvr: jobs, name: "hers", body: `{"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}`},
		"an admin changes its nodes":                 {as: "root", gvr: jobs, name: "hers", body: `{"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}`},
		"another's Job is resumed, and scaled":       {as: "bob", gvr: jobs, name: "hers", body: `{"spec":{"suspend":false,"parallelism":3}}`},
		"another's Job is labelled":                  {as: "bob", gvr: jobs, name: "hers", body: meta + `"labels":{"a":"b"}}}`},
		"another's Job gets a condition":             {as: "bob", gvr: jobs, name: "hers", sub: []string{"status"}, body: `{"status":{"conditions":[{"type":"X","status":"True"}]}}`},
		"a Job that selects by hand":                 {as: "alice", object: byHand.Replace(jobText("j", stampedByAlice, "")), want: "spec.manualSelector lets"},
		"a CronJob whose jobs bear somebody's UID":   {as: "alice", object: "{apiVersion: batch/v1, kind: CronJob, metadata: {name: c, namespace: managed, " + stampedByAlice + "}, spec: {schedule: '* * * * *', suspend: true, jobTemplate: {spec: {template: {metadata: {labels: {controller-uid: u}}, spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}}", want: "another Job's controller-uid"},
		"a pod of a Job where nothing is managed":    {as: "alice", object: strings.Replace(ownedText("x", "alice", ofTrain, "controller-uid: u"), "namespace: managed", "namespace: plain", 1)},
		"a Job that selects by hand where it may be": {as: "alice", object: byHand.Replace(strings.Replace(jobText("j", stampedByAlice, ""), "namespace: managed", "namespace: plain", 1))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := root
			if tc.as != "root" {
				c = client(t, cp, users[tc.as])
			}
			if tc.object != "" {
				refusedWith(t, create(t, c, tc.object, dryRun), tc.want)
				return
			}
			refusedWith(t, patch(t, c, tc.gvr, "managed", tc.name, tc.body, tc.sub...), tc.want)
		})
	}
}

// TestNobodyGetsIntoAManagedPod tries P4 by all of its ways. Where the policy lets an admin pass, the API server finds that
// the pod runs nowhere.
func TestNobodyGetsIntoAManagedPod(t *testing.T) {
	t.Parallel()
	cp := live(t)
	alice := client(t, cp, "alice")
	for _, namespace := range []string{"managed", "plain"} {
		mustCreate(t, alice, strings.Replace(podText(namespace, stampedByAlice, "", ""), "name: p,", "name: entered,", 1))
		mustCreate(t, alice, "{apiVersion: v1, kind: Service, metadata: {name: entered, namespace: "+namespace+"}, spec: {ports: [{port: 80}]}}")
	}
	enter := func(t *testing.T, user, group, namespace, resource, sub string) error {
		t.Helper()
		config, err := cp.ConfigFor(user, group)
		if err != nil {
			t.Fatal(err)
		}
		request := kubernetes.NewForConfigOrDie(config).CoreV1().RESTClient().Post().Namespace(namespace).Resource(resource).Name("entered").SubResource(sub)
		if sub == "exec" {
			request = request.Param("command", "id").Param("stdout", "true")
		}
		return request.Do(t.Context()).Error()
	}
	for _, path := range []string{"pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "services/proxy"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			resource, sub, _ := strings.Cut(path, "/")
			refusedWith(t, enter(t, "alice", "people", "managed", resource, sub), sub+" is for platform admins")
			for user, where := range map[string][2]string{"root": {"system:masters", "managed"}, "alice": {"people", "plain"}} {
				err := enter(t, user, where[0], where[1], resource, sub)
				if err == nil || apierrors.IsForbidden(err) || strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
					t.Errorf("%s in %s: %v; want the API server's own complaint", user, where[1], err)
				}
			}
		})
	}
}
