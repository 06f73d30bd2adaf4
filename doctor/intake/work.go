package intake

import (
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/doctor"
)

// managed are the namespaces that bear the label.
func (t *taker) managed() []string {
	var names []string
	for _, ns := range t.snapshot.Namespaces {
		if ns.Labels[wire.LabelJobs] == wire.JobsManaged {
			names = append(names, ns.Name)
		}
	}
	return names
}

// work reads what bears the creator's stamp in managed namespaces: jobs of every kind that the configuration names, and their
// parents. Kinds that the cluster does not have have no objects.
func (t *taker) work(ctx context.Context) {
	resources := t.snapshot.Settings.Stamped
	if len(resources) == 0 { // the configuration could not be read
		resources = []string{"batch/jobs"}
	}
	for _, name := range resources {
		resource, served, err := t.served(name)
		if err != nil {
			t.missed(doctor.SourceJobs, err)
			continue
		}
		for _, namespace := range t.managed() {
			if served {
				t.missed(doctor.SourceJobs, t.workOf(ctx, name, resource, namespace))
			}
		}
	}
}

// served finds the version in which the API server prefers to serve a resource, "group/resource".
func (t *taker) served(name string) (schema.GroupVersionResource, bool, error) {
	group, resource, _ := strings.Cut(name, "/")
	groups, err := t.Kube.Discovery().ServerGroups()
	if err != nil {
		return schema.GroupVersionResource{}, false, err
	}
	for _, g := range groups.Groups {
		if g.Name != group {
			continue
		}
		for _, v := range append([]metav1.GroupVersionForDiscovery{g.PreferredVersion}, g.Versions...) {
			list, err := t.Kube.Discovery().ServerResourcesForGroupVersion(v.GroupVersion)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return schema.GroupVersionResource{}, false, err
			}
			if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource }) {
				return schema.GroupVersionResource{Group: group, Version: v.Version, Resource: resource}, true, nil
			}
		}
	}
	return schema.GroupVersionResource{}, false, nil
}

// workOf reads one resource in one namespace. Of the objects it keeps whether they are stamped and whether they have ended.
func (t *taker) workOf(ctx context.Context, name string, resource schema.GroupVersionResource, namespace string) error {
	return pages(func(o metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := t.Dynamic.Resource(resource).Namespace(namespace).List(ctx, o)
		if err != nil {
			return nil, err
		}
		for _, object := range list.Items {
			t.snapshot.Work = append(t.snapshot.Work, doctor.Work{
				Resource: name, Namespace: namespace, Name: object.GetName(),
				Stamped: object.GetAnnotations()[wire.AnnotationCreatedBy] != "", Ended: ended(object),
			})
		}
		return list, nil
	})
}

// ended says whether a job is over, of whatever kind: a time of completion, or one of the conditions that controllers write
// then. A parent of jobs, such as a CronJob, never is.
func ended(object unstructured.Unstructured) bool {
	if text, _, _ := unstructured.NestedString(object.Object, "status", "completionTime"); text != "" {
		return true
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(item any) bool {
		c, _ := item.(map[string]any)
		kind, _ := c["type"].(string)
		return c["status"] == "True" && slices.Contains([]string{"Complete", "Completed", "Failed", "Succeeded", "Finished"}, kind)
	})
}

// certificateAuthority looks for the CA certificate's ConfigMap in every managed namespace, and not into it.
func (t *taker) certificateAuthority(ctx context.Context) {
	job := t.snapshot.Settings.Rules.Job
	if job == nil || job.CAConfigMap == "" {
		return
	}
	t.snapshot.CA = map[string]bool{}
	for _, namespace := range t.managed() {
		_, err := t.Kube.CoreV1().ConfigMaps(namespace).Get(ctx, job.CAConfigMap, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.missed(doctor.SourceCA, err)
			return
		}
		t.snapshot.CA[namespace] = err == nil
	}
}
